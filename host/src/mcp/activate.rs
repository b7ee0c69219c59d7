//! `activate_skill`: the instructions of a skill, and its tools for this session.

use std::sync::{Arc, PoisonError};

use rmcp::model::CallToolResult;
use rmcp::service::{RequestContext, RoleServer};
use serde::Deserialize;

use super::definitions::{RUN, name, weight};
use super::result::{cut, failed, said};
use super::session::Session;
use super::{Shared, TOOLS, trace};
use crate::invoke::component;
use crate::runtime::scripts;
use crate::sandbox::{Tool, say};
use crate::skill::Skill;
use crate::usage::Event;

#[derive(Deserialize)]
pub(super) struct Input {
    name: String,
}

/// Bytes of the instructions that an answer carries. The longest in use have 160 KB.
const INSTRUCTIONS: usize = 64 << 10;
/// Files that an answer names.
const FILES: usize = 100;

impl Shared {
    pub(super) async fn activate(&self, session: &Session, input: Input, context: &RequestContext<RoleServer>) -> CallToolResult {
        let Some(entry) = self.entry(&input.name) else { return failed(self.no_skill(&input.name)) };
        trace::about(&entry);
        let hidden = self.hidden.and(&entry.folder, "/skill");
        let skill = match self.load(&entry) {
            Ok(skill) => skill,
            Err(error) => return failed(hidden.text(&error.to_string())),
        };
        let mut notes = Vec::new();
        let tools = match self.tools_of(&skill).await {
            Ok(tools) => tools,
            Err(why) => {
                notes.push(format!("Its typed tools cannot be had: {}", hidden.text(&why)));
                Arc::default()
            }
        };
        let body = &skill.source[skill.body_offset..];
        let (shown, is_cut) = cut(body.trim().as_bytes(), INSTRUCTIONS);
        if is_cut {
            notes.push(format!("The instructions go on: read the rest with read_skill_file, or as skill://{}/SKILL.md.", entry.name));
        }
        let mut text = format!("# Skill {}\n\n{shown}\n\n---\n", entry.name);
        text += &self.what_there_is(&skill, &entry.name, &tools);
        if session.is_alone(context) {
            // Nothing is remembered of a request that stands alone: it is told all that a list would tell.
            for tool in tools.iter() {
                let schema = &tool.input_schema;
                text += &format!("{}: {} Input: {schema}\n", name(&entry.name, &tool.name), tool.description);
            }
        } else {
            session.state().active.insert(entry.name.to_string(), tools);
            session.tools_changed().await;
        }
        text += &notes.join("\n");
        let sent = text.len() as u64;
        self.tally(session, context).note(&entry.name, || weight(&entry), Event::Activated { sent });
        said(text)
    }

    fn what_there_is(&self, skill: &Skill, called: &str, tools: &[Tool]) -> String {
        let mut text = String::new();
        let files: Vec<&str> = skill.files.iter().map(|file| file.path.as_str()).filter(|path| *path != skill.skill_file).collect();
        if !files.is_empty() {
            let more = if files.len() > FILES { format!(" and {} more", files.len() - FILES) } else { String::new() };
            text += &format!("Files: {}{more}\n", files.iter().take(FILES).copied().collect::<Vec<_>>().join(", "));
        }
        let programs: Vec<String> =
            scripts::all(skill).into_iter().filter(|script| script.run.is_ok()).take(FILES).map(|script| script.path).collect();
        if !programs.is_empty() {
            text += &format!("Programs for {RUN}: {}\n", programs.join(", "));
        }
        if !tools.is_empty() {
            let names: Vec<String> = tools.iter().map(|tool| name(called, &tool.name)).collect();
            text += &format!("Tools: {}\n", names.join(", "));
        }
        text
    }

    /// The typed tools of a skill's component; none where it has no component, or that has none.
    pub(super) async fn tools_of(&self, skill: &Skill) -> Result<Arc<Vec<Tool>>, String> {
        if skill.manifest.component.is_none() || skill.manifest.recovered {
            return Ok(Arc::default());
        }
        let (_, component) = component(skill).map_err(|status| say(&status))?;
        let known = self.tools.lock().unwrap_or_else(PoisonError::into_inner).get(&component.digest).cloned();
        if let Some(tools) = known {
            return Ok(tools);
        }
        let tools = self.service.host().tools(&component).await.map_err(|status| say(&status))?;
        let tools = Arc::new(tools);
        let mut known = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= TOOLS {
            known.clear();
        }
        known.insert(component.digest.clone(), tools.clone());
        Ok(tools)
    }

    /// That there is no skill of that name, and which ones are like it.
    pub(super) fn no_skill(&self, name: &str) -> String {
        let entries = self.entries();
        let likeness = |other: &str| strsim::jaro_winkler(other, name);
        let nearest = entries.iter().max_by(|a, b| likeness(&a.name).total_cmp(&likeness(&b.name)));
        match nearest.filter(|entry| likeness(&entry.name) > 0.8) {
            Some(entry) => format!("there is no skill `{name}`; did you mean `{}`?", entry.name),
            None => format!("there is no skill `{name}`; discover_skills finds those that there are"),
        }
    }
}
