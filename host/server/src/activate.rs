//! `activate_skill`: returns a skill's instructions, and adds its tools to the session;
//! `deactivate_skill` removes them.

use std::sync::{Arc, PoisonError};

use rmcp::model::CallToolResult;
use rmcp::service::{RequestContext, RoleServer};
use serde::Deserialize;

use super::approval::Call;
use super::definitions::{RUN, name, weight};
use super::result::{cut, failed, said};
use super::run::Caller;
use super::session::{ActivatedBy, ActiveSkill, Session};
use super::{Shared, TOOLS, trace};
use skillhost::invoke::{ComponentTools, Target, declared_component};
use skillhost_catalog::CatalogEntry;
use skillhost_ledger::approval::RunDecision;
use skillhost_ledger::usage::UsageEvent;
use skillhost_policy::disclosure::Disclosure;
use skillhost_sandbox::{self as sandbox, Tool, ToolListing, say};
use skillhost_skill::Skill;
use skillhost_skill::runtime::scripts;

#[derive(Deserialize)]
pub(super) struct Input {
    name: String,
}

/// The most bytes of instructions in an answer. The longest in use have 160 KB.
const INSTRUCTIONS: usize = 64 << 10;
/// The most files that an answer names.
const FILES: usize = 100;

impl Shared {
    pub(super) async fn activate(&self, input: Input, caller: Caller<'_>) -> CallToolResult {
        let Caller { session, context, .. } = caller;
        let Some(entry) = self.entry_in(session, &input.name) else {
            return failed(self.no_skill(&input.name));
        };
        trace::about(&entry);
        let hidden = self.hidden.and(&entry.folder, "/skill");
        let skill = match self.load(&entry) {
            Ok(skill) => skill,
            Err(error) => return failed(hidden.text(&error.to_string())),
        };
        let mut notes = Vec::new();
        let tools = match self.tools_for(&entry, &skill, caller).await {
            Ok(tools) => self.tools_for_agents(&entry.name, tools),
            Err(why) => {
                notes.push(format!("Its typed tools are unknown: {}", hidden.text(&why)));
                Arc::default()
            }
        };
        let body = &skill.source[skill.body_offset..];
        let (shown, is_cut) = cut(body.trim().as_bytes(), INSTRUCTIONS);
        if is_cut {
            notes.push(format!("The instructions continue: read the rest with read_skill_file, or as skill://{}/SKILL.md.", entry.name));
        }
        let mut text = format!("# Skill {}\n\n{shown}\n\n---\n", entry.name);
        text += &self.what_there_is(&skill, &entry.name, &tools);
        if session.is_alone(context) {
            // A request without a session is not remembered, so it gets everything that a tool list
            // would have.
            let lines: String = tools
                .iter()
                .map(|tool| {
                    format!(
                        "{}: {} Input: {}\n",
                        name(&entry.name, &tool.name),
                        tool.description,
                        tool.input_schema
                    )
                })
                .collect();
            let (shown, is_cut) = cut(lines.as_bytes(), INSTRUCTIONS);
            text += &shown;
            if is_cut {
                notes.push("The list of its tools is truncated.".into());
            }
        } else {
            let by = if entry.user_only { ActivatedBy::User } else { ActivatedBy::Agent };
            let skill = ActiveSkill { tools, by };
            session.state().active.insert(entry.name.to_string(), skill);
            session.tools_changed().await;
        }
        text += &notes.join("\n");
        self.count_activation(&entry, session, context, text.len());
        said(text)
    }

    /// Counts that the instructions of a skill were sent, in an answer of this many bytes.
    pub(super) fn count_activation(
        &self,
        entry: &CatalogEntry,
        session: &Session,
        context: &RequestContext<RoleServer>,
        sent: usize,
    ) {
        let tier = self.disclosure(session, &entry.name);
        self.metrics.activated(&entry.name, tier);
        let event = UsageEvent::Activated { sent: sent as u64, always: tier == Disclosure::Always };
        self.tally(session, context).count(&entry.name, || weight(entry), event);
    }

    /// Removes a skill and its tools from the session. The session's approvals stay as they are.
    pub(super) async fn deactivate(&self, input: Input, session: &Session) -> CallToolResult {
        let Input { name } = input;
        if session.state().active.remove(&name).is_none() {
            return failed(format!("the skill `{name}` is not active"));
        }
        session.tools_changed().await;
        said(format!("The skill `{name}` is no longer active."))
    }

    fn what_there_is(&self, skill: &Skill, called: &str, tools: &[Tool]) -> String {
        let mut text = String::new();
        let files: Vec<&str> = skill
            .files
            .iter()
            .map(|file| file.path.as_str())
            .filter(|path| *path != skill.skill_file)
            .collect();
        if !files.is_empty() {
            let more = if files.len() > FILES {
                format!(" and {} more", files.len() - FILES)
            } else {
                String::new()
            };
            text += &format!(
                "Files: {}{more}\n",
                files.iter().take(FILES).copied().collect::<Vec<_>>().join(", ")
            );
        }
        let programs: Vec<String> = scripts::programs(skill)
            .into_iter()
            .filter(|script| script.run.is_ok())
            .take(FILES)
            .map(|script| script.path)
            .collect();
        if !programs.is_empty() {
            text += &format!("Programs for {RUN}: {}\n", programs.join(", "));
        }
        if !tools.is_empty() {
            let names: Vec<String> = tools.iter().map(|tool| name(called, &tool.name)).collect();
            text += &format!("Tools: {}\n", names.join(", "));
        }
        text
    }

    /// Returns the typed tools of a skill's component. A component that does not list them in a
    /// section is asked for them, if a run of the skill would be allowed: asking compiles and runs
    /// it.
    pub(super) async fn tools_for(
        &self,
        entry: &CatalogEntry,
        skill: &Skill,
        caller: Caller<'_>,
    ) -> Result<Arc<Vec<Tool>>, String> {
        if let Some(tools) = self.known_tools(skill).await? {
            return Ok(tools);
        }
        let workspace = self.workspace(caller.session, entry, caller.context).await?;
        let loaded = self
            .service
            .runner()
            .in_session(caller.record())
            .load_for_run(entry, &workspace.policy)
            .map_err(|error| error.to_string())?;
        let hidden = self.hidden.and(&entry.folder, "/skill");
        let call = Call::new(entry, &loaded, (&Target::Main, &[]), (&[], &[]), &workspace, &hidden);
        match self.decide(&call, caller)? {
            RunDecision::Allowed(_) => {}
            RunDecision::Refused(refusal) => return Err(refusal.to_string()),
            RunDecision::NeedsApproval(id, _) => {
                return Err(format!(
                    "they are listed once a run of the skill is approved. The operator can approve one: skillhost approve {id}"
                ));
            }
        }
        // A run that lists tools may be interrupted, which is not seen here.
        workspace.folder.iter().for_each(|folder| folder.discard());
        let listed = tokio::select! {
            listed = self.service.list_tools(&loaded) => listed.map_err(|error| error.to_string())?,
            () = caller.context.ct.cancelled() => return Err("it was cancelled".into()),
        };
        let ComponentTools { component, tools } = listed?;
        Ok(self.remember_tools(component, tools))
    }

    /// Returns the typed tools of a skill's component without running it; `None` if they are
    /// unknown.
    pub(super) async fn known_tools(
        &self,
        skill: &Skill,
    ) -> Result<Option<Arc<Vec<Tool>>>, String> {
        if skill.manifest.component.is_none() || skill.manifest.recovered {
            return Ok(Some(Arc::default()));
        }
        let (_, component) = declared_component(skill).map_err(|status| say(&status))?;
        let known = self
            .tools
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&component.digest)
            .cloned();
        if known.is_some() {
            return Ok(known);
        }
        let bytes =
            component.bytes().map_err(|error| format!("cannot read the component: {error}"))?;
        match sandbox::listing(bytes.to_vec()).await? {
            ToolListing::Known(tools) => Ok(Some(self.remember_tools(component.digest, tools))),
            ToolListing::Unlisted => Ok(None),
        }
    }

    fn remember_tools(&self, digest: String, tools: Vec<Tool>) -> Arc<Vec<Tool>> {
        let tools = Arc::new(tools);
        let mut known = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= TOOLS {
            known.clear();
        }
        known.insert(digest, tools.clone());
        tools
    }

    /// Explains that there is no skill of that name, and suggests a similar one.
    pub(super) fn no_skill(&self, name: &str) -> String {
        let entries = self.entries();
        let likeness = |other: &str| strsim::jaro_winkler(other, name);
        let nearest = entries.iter().max_by(|a, b| likeness(&a.name).total_cmp(&likeness(&b.name)));
        match nearest.filter(|entry| likeness(&entry.name) > 0.8) {
            Some(entry) => format!("no skill `{name}`; did you mean `{}`?", entry.name),
            None => {
                format!("no skill `{name}`; find skills with discover_skills")
            }
        }
    }
}
