//! Splits lists into pages.

use rmcp::ErrorData;
use rmcp::model::PaginatedRequestParams;

use skillhost_catalog::CatalogEntry;

/// Items per page.
pub(super) const PAGE: usize = 100;

/// Returns the skills after a cursor. The cursor names the last skill of the previous page, so that
/// a list that changes in the meantime skips none.
///
/// # Errors
/// The cursor is invalid.
pub(super) fn after<'a>(
    entries: &'a [CatalogEntry],
    request: Option<&PaginatedRequestParams>,
) -> Result<&'a [CatalogEntry], ErrorData> {
    let Some(cursor) = request.and_then(|request| request.cursor.as_deref()) else {
        return Ok(entries);
    };
    let last = cursor
        .strip_prefix("after:")
        .filter(|name| !name.is_empty())
        .ok_or_else(|| unknown(cursor))?;
    Ok(&entries[entries.partition_point(|entry| &*entry.name <= last)..])
}

/// Returns the cursor of the next page, if there is one. `rest` are the items from this page on.
pub(super) fn next(rest: &[CatalogEntry], taken: usize) -> Option<String> {
    let last = taken.checked_sub(1).and_then(|last| rest.get(last))?;
    (taken < rest.len()).then(|| format!("after:{}", last.name))
}

fn unknown(cursor: &str) -> ErrorData {
    ErrorData::invalid_params(format!("invalid cursor `{cursor}`"), None)
}
