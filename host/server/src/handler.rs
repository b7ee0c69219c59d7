//! The protocol's methods. Each one calls the module of its subject.

use std::sync::Arc;

use rmcp::model::*;
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tracing::Instrument as _;

use super::definitions::{self, ACTIVATE, DEACTIVATE, DISCOVER, READ, RUN};
use super::question::Answer;
use super::result::failed;
use super::run::Caller;
use super::session::{SUBSCRIPTIONS, Session, is_new};
use super::{Shared, session_tools, trace};
use skillhost_ledger::usage;

/// A client of a server.
pub(super) struct Client {
    pub(super) shared: Arc<Shared>,
    pub(super) session: Arc<Session>,
}

/// The instructions that the client's model gets at the start, in addition to the tools.
const INSTRUCTIONS: &str = "Skills: find one with discover_skills, load it with activate_skill, and follow its instructions.";

/// Methods that take parameters.
const TAKING: [&str; 12] = [
    "initialize",
    "server/discover",
    "tools/call",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "resources/directory/read",
    "skills/get",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "subscriptions/listen",
];

/// Methods that were removed in revision 2026-07-28.
const GONE: [&str; 4] =
    ["initialize", "resources/subscribe", "resources/unsubscribe", "logging/setLevel"];

impl Client {
    /// Returns the tools that this client can call.
    async fn tools(&self, context: &RequestContext<RoleServer>) -> Vec<Tool> {
        let started = self.shared.start(&self.session).await;
        let mut tools = definitions::discovery();
        let state = self.session.state();
        let is_alone = self.session.is_alone(context);
        if !state.active.is_empty() || is_alone {
            // A skill that changed may be gone.
            let still: Vec<&str> = started
                .iter()
                .map(String::as_str)
                .filter(|name| state.active.contains_key(*name))
                .collect();
            tools.push(definitions::run(&still));
        }
        if !state.active.is_empty() && !is_alone {
            tools.push(definitions::deactivate());
        }
        let sessions = self.shared.sessions_of(&self.session).filter(|_| !is_alone);
        if let Some(sessions) = sessions.filter(|_| !state.active.is_empty()) {
            tools.extend(session_tools::definitions(!sessions.is_empty()));
        }
        self.tally(context).count_listing(|| definitions::bytes(&tools));
        for (skill, active) in &state.active {
            tools.extend(active.tools.iter().map(|tool| definitions::typed(skill, tool)));
        }
        tools
    }

    /// Calls a tool, and returns its answer.
    async fn answer(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.session.remember_peer(&context);
        if !self.session.is_alone(&context) {
            self.shared.start(&self.session).await;
        }
        let is_alone = self.session.is_alone(&context);
        if session_tools::is(&params.name)
            && let Some(sessions) = self.shared.sessions_of(&self.session).filter(|_| !is_alone)
        {
            let CallToolRequestParams { name, arguments, .. } = params;
            let called = self.shared.call_in_session(&name, arguments, &self.session, sessions);
            let (answer, has_changed) = called.await;
            if has_changed {
                self.session.tools_changed().await;
            }
            return Ok(answer.into());
        }
        let answer = Answer::of(&params);
        let caller = Caller { session: &self.session, context: &context, answer: answer.as_ref() };
        let wrong = |wrong: Box<CallToolResult>| CallToolResponse::from(*wrong);
        Ok(match &*params.name {
            DISCOVER => input(params.arguments).map_or_else(wrong, |input| {
                self.shared.discover(input, &self.session, self.tally(&context)).into()
            }),
            READ => input(params.arguments).map_or_else(wrong, |input| {
                self.shared.read(input, &self.session, self.tally(&context)).into()
            }),
            ACTIVATE => match input(params.arguments) {
                Ok(input) => self.shared.activate(input, caller).await.into(),
                Err(why) => wrong(why),
            },
            DEACTIVATE => match input(params.arguments) {
                Ok(input) => self.shared.deactivate(input, &self.session).await.into(),
                Err(why) => wrong(why),
            },
            RUN => match input(params.arguments) {
                Ok(input) => self.shared.run(input, caller).await,
                Err(why) => wrong(why),
            },
            typed => self.typed(typed, params.arguments.unwrap_or_default(), caller).await?,
        })
    }

    fn tally(&self, context: &RequestContext<RoleServer>) -> &usage::UsageSession {
        self.shared.tally(&self.session, context)
    }

    /// Calls a typed tool: of a skill that the session has activated or, without a session, of any
    /// skill.
    async fn typed(
        &self,
        called: &str,
        input: JsonObject,
        caller: Caller<'_>,
    ) -> Result<CallToolResponse, ErrorData> {
        let unknown = || {
            ErrorData::invalid_params(
                format!("no tool `{called}`; activate a skill to use its tools"),
                None,
            )
        };
        let (skill, tool) = called.split_once('.').ok_or_else(unknown)?;
        let entry = self.shared.entry_in(&self.session, skill).ok_or_else(unknown)?;
        let tools = match self.session.tools(skill) {
            Some(tools) => tools,
            None if self.session.is_alone(caller.context) => {
                let skill = self.shared.load(&entry).map_err(|_| unknown())?;
                let tools = self.shared.tools_for(&entry, &skill, caller).await;
                self.shared.tools_for_agents(&entry.name, tools.map_err(|_| unknown())?)
            }
            None => return Err(unknown()),
        };
        let tool = tools.iter().find(|known| known.name == tool).ok_or_else(unknown)?;
        Ok(self.shared.call(&entry, tool, input, caller).await)
    }
}

/// Parses the arguments of a tool. The model reads the error.
fn input<T: DeserializeOwned>(arguments: Option<JsonObject>) -> Result<T, Box<CallToolResult>> {
    serde_json::from_value(Value::Object(arguments.unwrap_or_default()))
        .map_err(|error| Box::new(failed(format!("invalid arguments: {error}"))))
}

#[expect(deprecated, reason = "clients of revisions before 2026-07-28 subscribe and set levels so")]
impl ServerHandler for Client {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_completions()
            .enable_logging()
            .enable_skills_with_directory_read()
            .build();
        let name = Implementation::new("skillhost", env!("CARGO_PKG_VERSION"));
        let instructions = self.shared.instructions(&self.session, INSTRUCTIONS);
        ServerConfig::new(capabilities).with_server_info(name).with_instructions(instructions)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.session.state().peer = Some(context.peer);
    }

    async fn on_roots_list_changed(&self, _: NotificationContext<RoleServer>) {
        self.session.state().root = None;
    }

    /// Handles unknown methods, and known ones with invalid parameters.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let is_gone = is_new(&context) && GONE.contains(&request.method.as_str());
        match !is_gone && TAKING.contains(&request.method.as_str()) {
            true => Err(ErrorData::invalid_params(
                format!("invalid parameters for {}", request.method),
                None,
            )),
            false => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None)),
        }
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools(&context).await))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let span = trace::call(&params, &self.session, &context);
        let answer = self.answer(params, context).instrument(span.clone()).await;
        trace::answered(&span, &answer);
        answer
    }

    async fn list_resources(
        &self,
        params: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.shared.list_resources(params.as_ref())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(self.shared.resource_templates())
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.shared.read_resource(&params.uri, &self.session, self.tally(&context)).map(Into::into)
    }

    async fn list_skills(
        &self,
        params: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        self.shared.list_skills(params.as_ref())
    }

    async fn get_skill(
        &self,
        params: GetSkillRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        self.shared.get_skill(&params.uri)
    }

    async fn read_resource_directory(
        &self,
        params: ReadResourceDirectoryRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceDirectoryResult, ErrorData> {
        self.shared.directory(&params.uri)
    }

    async fn list_prompts(
        &self,
        params: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.shared.list_prompts(params.as_ref())
    }

    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.session.remember_peer(&context);
        let caller = Caller { session: &self.session, context: &context, answer: None };
        self.shared.get_prompt(&params, caller).await.map(Into::into)
    }

    async fn complete(
        &self,
        params: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Ok(self.shared.complete(&params))
    }

    async fn set_level(
        &self,
        params: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_new(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        self.session.state().level = Some(params.level);
        Ok(())
    }

    async fn subscribe(
        &self,
        params: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let mut state = self.session.state();
        if state.subscribed.len() >= SUBSCRIPTIONS {
            return Err(ErrorData::invalid_request(
                format!("a session can subscribe to at most {SUBSCRIPTIONS} resources"),
                None,
            ));
        }
        state.subscribed.insert(params.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        params: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.session.state().subscribed.remove(&params.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        if let Some(uris) = &mut accepted.resource_subscriptions {
            uris.truncate(SUBSCRIPTIONS);
        }
        Some(accepted)
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let sink = subscription.sink().clone();
        let id = sink.id().clone();
        self.session.state().sinks.push(sink);
        subscription.cancelled().await;
        self.session.state().sinks.retain(|sink| *sink.id() != id);
        Ok(())
    }
}
