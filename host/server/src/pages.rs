//! Lists, a page at a time.

use rmcp::ErrorData;
use rmcp::model::PaginatedRequestParams;

use skillhost_catalog::CatalogEntry;

/// Items of a page.
pub(super) const PAGE: usize = 100;

/// The skills after a cursor, which names the last of the page before: a list that changes
/// meanwhile skips none that stays.
///
/// # Errors
/// The cursor is not one of ours.
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

/// The cursor of the page after this one, if there is one. `rest` are the items from this page on.
pub(super) fn next(rest: &[CatalogEntry], taken: usize) -> Option<String> {
    let last = taken.checked_sub(1).and_then(|last| rest.get(last))?;
    (taken < rest.len()).then(|| format!("after:{}", last.name))
}

fn unknown(cursor: &str) -> ErrorData {
    ErrorData::invalid_params(format!("the cursor `{cursor}` is none of this list's"), None)
}
