//! Offers skills as resources: each file is `skill://NAME/PATH`. The results of runs are
//! `run://ID/...`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::ErrorData;
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, PaginatedRequestParams, ReadResourceResult,
    Resource, ResourceContents, ResourceTemplate,
};

use super::Shared;
use super::definitions::weight;
use super::pages::{self, PAGE};
use super::session::Session;
use super::skills::{own_path, parts, uri};
use skillhost_ledger::usage::{UsageEvent, UsageSession};

impl Shared {
    /// Lists each skill's SKILL.md, in pages. Its other files can be read by name, or found in its
    /// directories.
    pub(super) fn list_resources(
        &self,
        request: Option<&PaginatedRequestParams>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let entries = self.entries();
        let rest = pages::after(&entries, request)?;
        let page = &rest[..rest.len().min(PAGE)];
        let resource = |entry: &skillhost_catalog::CatalogEntry| {
            Resource::new(uri(&entry.name, "SKILL.md"), &*entry.name)
                .with_description(&*entry.description)
                .with_mime_type("text/markdown")
        };
        let mut result = ListResourcesResult::with_all_items(page.iter().map(resource).collect());
        result.next_cursor = pages::next(rest, page.len());
        Ok(result)
    }

    pub(super) fn resource_templates(&self) -> ListResourceTemplatesResult {
        let template = |uri: &str, name: &str, description: &str| {
            ResourceTemplate::new(uri, name).with_description(description)
        };
        ListResourceTemplatesResult::with_all_items(vec![
            template(
                "skill://{name}/{+path}",
                "skill-file",
                "A file of a skill, by skill name and path.",
            ),
            template(
                "run://{id}/{+part}",
                "run-output",
                "The complete output of a run, or a file that it wrote; its result has the URI.",
            ),
        ])
    }

    pub(super) fn read_resource(
        &self,
        uri: &str,
        session: &Session,
        tally: &UsageSession,
    ) -> Result<ReadResourceResult, ErrorData> {
        // Older clients know the code of their revision; newer ones get INVALID_PARAMS instead.
        let none = || {
            ErrorData::resource_not_found(
                format!("no resource {uri}"),
                Some(serde_json::json!({ "uri": uri })),
            )
        };
        let unreadable = |error: std::io::Error| {
            tracing::warn!(%error, uri, "cannot read a resource");
            ErrorData::internal_error(format!("cannot read {uri}: {}", error.kind()), None)
        };
        if let Some(bytes) = self.runs.read(uri) {
            return Ok(contents(uri, bytes.map_err(unreadable)?, None));
        }
        let (name, path) = parts(uri).ok_or_else(none)?;
        let entry = self.entry_in(session, name).ok_or_else(none)?;
        let skill = self.load(&entry).map_err(|_| none())?;
        let own = own_path(&skill, &path);
        let bytes = skill.read(own).map_err(|error| {
            if error.kind() == std::io::ErrorKind::NotFound { none() } else { unreadable(error) }
        })?;
        tally.count(&entry.name, || weight(&entry), UsageEvent::Read);
        Ok(contents(uri, bytes, Some(mime(&path))))
    }
}

fn contents(uri: &str, bytes: Vec<u8>, mime: Option<&str>) -> ReadResourceResult {
    let contents = match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::text(text, uri).with_mime_type(mime.unwrap_or("text/plain")),
        Err(error) => {
            let kind = mime.unwrap_or("application/octet-stream");
            ResourceContents::blob(STANDARD.encode(error.as_bytes()), uri).with_mime_type(kind)
        }
    };
    ReadResourceResult::new(vec![contents])
}

/// Returns the media type of a file, by its extension.
pub(super) fn mime(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase()).as_deref() {
        Some("md" | "markdown") => "text/markdown",
        Some("py") => "text/x-python",
        Some("js" | "mjs" | "cjs" | "jsx") => "text/javascript",
        Some("ts" | "mts" | "cts" | "tsx") => "text/typescript",
        Some("sh" | "bash") => "application/x-sh",
        Some("json") => "application/json",
        Some("yaml" | "yml") => "application/yaml",
        Some("toml") => "application/toml",
        Some("csv") => "text/csv",
        Some("html" | "htm") => "text/html",
        Some("xml") => "application/xml",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("pdf") => "application/pdf",
        Some("wasm") => "application/wasm",
        Some("txt" | "text" | "log") | None => "text/plain",
        Some(_) => "application/octet-stream",
    }
}
