//! Completes skill names, and paths of a skill's files.

use rmcp::model::{CompleteRequestParams, CompleteResult, CompletionInfo, Reference};

use super::Shared;

impl Shared {
    pub(super) fn complete(&self, params: &CompleteRequestParams) -> CompleteResult {
        let typed = params.argument.value.as_str();
        let named = |name: &str| params.context.as_ref()?.get_argument(name).cloned();
        let all: Vec<String> = match (&params.r#ref, params.argument.name.as_str()) {
            (Reference::Resource(template), "name") if template.uri.starts_with("skill://") => self
                .entries()
                .iter()
                .map(|entry| entry.name.to_string())
                .filter(|name| name.starts_with(typed))
                .collect(),
            (Reference::Resource(template), "path") if template.uri.starts_with("skill://") => {
                let skill = named("name").and_then(|name| self.load(&self.entry(&name)?).ok());
                let files = skill.into_iter().flat_map(|skill| skill.files);
                files.map(|file| file.path).filter(|path| path.starts_with(typed)).collect()
            }
            _ => Vec::new(),
        };
        let total = all.len();
        let values = all.into_iter().take(CompletionInfo::MAX_VALUES).collect();
        let info = CompletionInfo::with_pagination(
            values,
            u32::try_from(total).ok(),
            total > CompletionInfo::MAX_VALUES,
        );
        CompleteResult::new(info.unwrap_or_default())
    }
}
