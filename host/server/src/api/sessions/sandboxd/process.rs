//! Programs, over gRPC: `process.v1.ProcessService`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use prost::Message;
use rustix::fs::FileType;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tonic::Status;
use tonic::server::{Grpc, ServerStreamingService, UnaryService};
use tonic_prost::ProstCodec;

use super::super::super::logs::too_many;
use super::super::super::problem::{Problem, ProblemCode};
use super::super::super::state::StreamName;
use super::super::super::tenant::OpenStream;
use super::super::super::uploads::blocking;
use super::super::super::{Answered, body};
use super::super::files::View;
use super::super::programs::{EndOnDrop, Program};
use super::super::types::{ProgramRequest, Signal};
use super::files::inside;
use super::messages::{
    Event, ExecuteRequest, ExecuteResponse, ExitEvent, InitEvent, Nothing, Payload, ProcessConfig,
    ResizeTtyRequest, SendSignalRequest, StartRequest, StartResponse, WriteStdinRequest,
};
use super::{Sandbox, SandboxAnswer, status_of};
use skillhost_policy::WORKSPACE;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::Status as Ending;
use skillhost_sandbox::Spool;

/// The most bytes of a message, which is also what clients accept by default.
const MESSAGE: usize = 4 << 20;
/// The bytes that come before a message.
const FRAME: usize = 5;
/// The most bytes of output that one answer of `Execute` has.
const EXECUTED: u64 = (MESSAGE - (64 << 10)) as u64;
/// The most bytes of one event.
const EVENT: usize = 32 << 10;
/// The most events of a stream in a row.
const ROUND: usize = 16;
/// How often the output of a program is looked at.
const POLL: Duration = Duration::from_millis(20);
/// How long a client may take to accept an event.
const READ: Duration = Duration::from_secs(60);

type Events = Result<StartResponse, Status>;

/// Answers a call.
pub(super) async fn answer(sandbox: Sandbox, head: Parts, body: Incoming) -> SandboxAnswer {
    let method = head.uri.path().strip_prefix("/process.v1.ProcessService/").unwrap_or_default();
    let method = method.to_owned();
    if head.method != Method::POST {
        return Status::unimplemented("calls are sent by POST").into_http();
    }
    // A tenant receives a bounded number of messages at once.
    let receiving = match open_stream(&sandbox) {
        Ok(receiving) => receiving,
        Err(status) => return status.into_http(),
    };
    let within = sandbox.api.options.bounds.body_within;
    let limited = Limited::new(body, MESSAGE + FRAME);
    // All calls have one message, which is complete before any of it is parsed.
    let bytes = match tokio::time::timeout(within, limited.collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let text = format!("a message may have {MESSAGE} bytes");
            return Status::resource_exhausted(text).into_http();
        }
        Ok(Err(_)) => return Status::cancelled("the message ended early").into_http(),
        Err(_) => return status_of(&body::timeout(within)).into_http(),
    };
    drop(receiving);
    let request = Request::from_parts(head, Full::new(bytes));
    match &*method {
        "Start" => {
            let mut grpc = Grpc::new(ProstCodec::<StartResponse, StartRequest>::default())
                .max_decoding_message_size(MESSAGE);
            grpc.server_streaming(Start(sandbox), request).await
        }
        "Execute" => unary(request, |call| execute(sandbox, call)).await,
        "WriteStdin" => unary(request, |call| write_stdin(sandbox, call)).await,
        "SendSignal" => unary(request, |call| send_signal(sandbox, call)).await,
        "ResizeTTY" => unary(request, |call| resize(sandbox, call)).await,
        _ => Status::unimplemented("process.v1.ProcessService has no such method").into_http(),
    }
}

/// Answers a call by one message.
async fn unary<Q, A, F>(
    request: Request<Full<Bytes>>,
    act: impl FnOnce(Q) -> F + Send,
) -> SandboxAnswer
where
    Q: Message + Default + Send + 'static,
    A: Message + Send + 'static,
    F: Future<Output = Result<A, Status>> + Send + 'static,
{
    let mut grpc = Grpc::new(ProstCodec::<A, Q>::default()).max_decoding_message_size(MESSAGE);
    grpc.unary(Call(Some(act)), request).await
}

/// A function that answers one call.
struct Call<F>(Option<F>);

impl<Q, A, F, R> UnaryService<Q> for Call<F>
where
    F: FnOnce(Q) -> R,
    R: Future<Output = Result<A, Status>> + Send + 'static,
{
    type Response = A;
    type Future = BoxFuture<'static, Result<tonic::Response<A>, Status>>;

    fn call(&mut self, request: tonic::Request<Q>) -> Self::Future {
        let answered = self.0.take().map(|act| act(request.into_inner()));
        Box::pin(async move {
            match answered {
                Some(answered) => answered.await.map(tonic::Response::new),
                None => Err(Status::internal("a call is answered once")),
            }
        })
    }
}

/// Starts a program whose events are streamed.
struct Start(Sandbox);

impl ServerStreamingService<StartRequest> for Start {
    type Response = StartResponse;
    type ResponseStream = Started;
    type Future = BoxFuture<'static, Result<tonic::Response<Started>, Status>>;

    fn call(&mut self, request: tonic::Request<StartRequest>) -> Self::Future {
        let (sandbox, request) = (self.0.clone(), request.into_inner());
        Box::pin(async move { start(sandbox, request).await.map(tonic::Response::new) })
    }
}

/// The events of a program. Dropping this value ends the program.
struct Started {
    events: Receiver<Events>,
    _ends: EndOnDrop,
    _open: OpenStream,
}

impl Stream for Started {
    type Item = Events;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Events>> {
        self.events.poll_recv(context)
    }
}

async fn start(sandbox: Sandbox, request: StartRequest) -> Result<Started, Status> {
    if request.pty.is_some() {
        return Err(Status::unimplemented("programs of the sandbox have no terminal"));
    }
    let open = open_stream(&sandbox)?;
    let program = begin(&sandbox, request.config, true).await?;
    let number = i32::try_from(program.number)
        .map_err(|_| Status::resource_exhausted("the sandbox has run too many programs"))?;
    let (to, events) = channel(4);
    let init = Event::Init(InitEvent { process_id: number });
    let ends = EndOnDrop(program.clone());
    tokio::spawn(async move {
        let ended = EndOnDrop(program.clone());
        let mut follower = Follower { sandbox, program, to, output: None, at: [0, 0] };
        if follower.send(init).await.is_ok() {
            // A client that has gone, or does not read, gets nothing more.
            follower.follow().await.ok();
        }
        drop(ended);
    });
    Ok(Started { events, _ends: ends, _open: open })
}

async fn execute(sandbox: Sandbox, request: ExecuteRequest) -> Result<ExecuteResponse, Status> {
    let _open = open_stream(&sandbox)?;
    let program = begin(&sandbox, request.config, false).await?;
    // If the client goes away, this future is dropped.
    let _ends = EndOnDrop(program.clone());
    program.end().await;
    let (exit_code, note) = ending(&program)?;
    let output = {
        let (tenant, program) = (sandbox.tenant.clone(), program.clone());
        blocking(move || {
            let (mut output, mut left) = ([Vec::new(), Vec::new()], EXECUTED);
            for (stream, into) in StreamName::ALL.into_iter().zip(&mut output) {
                let output = match tenant.state.output(&program.id, stream) {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                    output => output.map_err(|error| Problem::internal(&error))?,
                };
                let most = usize::try_from(left + 1).unwrap_or(usize::MAX);
                *into = output.at(0, most).map_err(|error| Problem::internal(&error))?;
                left = left.checked_sub(into.len() as u64).ok_or_else(|| {
                    let detail = format!("the output has more than {EXECUTED} bytes; use `Start`");
                    Problem::new(ProblemCode::BodyTooLarge, detail)
                })?;
            }
            Ok(output)
        })
        .await
    };
    let [stdout, mut stderr] = output.map_err(|problem| status_of(&problem))?;
    stderr.extend(note.into_iter().flat_map(String::into_bytes));
    Ok(ExecuteResponse { exit_code, stdout: stdout.into(), stderr: stderr.into() })
}

async fn write_stdin(sandbox: Sandbox, request: WriteStdinRequest) -> Result<Nothing, Status> {
    let program = live(&sandbox, request.process_id)?;
    let (input, is_end) = match request.payload {
        Some(Payload::Input(input)) => (input, false),
        Some(Payload::Eof(_)) => (Bytes::new(), true),
        None => return Err(Status::invalid_argument("send `input` or `eof`")),
    };
    let written =
        sandbox.api.write_stdin(&sandbox.tenant, &program, Full::new(input), is_end).await;
    match written {
        Ok(_) => Ok(Nothing {}),
        // To close what is closed is no error.
        Err(problem) if is_end && problem.code == ProblemCode::ProgramEnded => Ok(Nothing {}),
        Err(problem) => Err(status_of(&problem)),
    }
}

async fn send_signal(sandbox: Sandbox, request: SendSignalRequest) -> Result<Nothing, Status> {
    let program = live(&sandbox, request.process_id)?;
    let signal = match request.signal {
        2 => Signal::Int,
        9 => Signal::Kill,
        15 => Signal::Term,
        _ => return Err(Status::invalid_argument("send SIGINT, SIGKILL or SIGTERM")),
    };
    sandbox.api.signal(&program, signal).await;
    Ok(Nothing {})
}

async fn resize(sandbox: Sandbox, request: ResizeTtyRequest) -> Result<Nothing, Status> {
    live(&sandbox, request.process_id)?;
    Err(Status::failed_precondition("the program has no terminal"))
}

/// Returns a program that has not ended.
fn live(sandbox: &Sandbox, number: i32) -> Result<Arc<Program>, Status> {
    let found = u64::try_from(number).ok().and_then(|number| sandbox.session.live_program(number));
    found.ok_or_else(|| Status::not_found("no such program is running"))
}

fn open_stream(sandbox: &Sandbox) -> Result<OpenStream, Status> {
    sandbox.tenant.open_stream().ok_or_else(|| status_of(&too_many()))
}

/// Starts a program of the sandbox, with the permissions of the session's first skill.
async fn begin(
    sandbox: &Sandbox,
    config: Option<ProcessConfig>,
    stream_stdin: bool,
) -> Result<Arc<Program>, Status> {
    let ProcessConfig { command, env_vars, cwd } = config.unwrap_or_default();
    if command.first().is_none_or(String::is_empty) {
        return Err(Status::invalid_argument("`command` names a program and its arguments"));
    }
    let begun = async {
        let cwd = match cwd.filter(|cwd| !cwd.is_empty()) {
            Some(cwd) => Some(folder(sandbox, &cwd).await?),
            None => None,
        };
        let request = ProgramRequest {
            args: command,
            env: env_vars,
            cwd,
            stream_stdin,
            ..ProgramRequest::default()
        };
        sandbox.api.begin_program(&sandbox.tenant, &sandbox.session, request).await
    };
    begun.await.map_err(|problem| status_of(&problem))
}

/// Returns a folder of the workspace as a path of the guest.
async fn folder(sandbox: &Sandbox, path: &str) -> Answered<String> {
    let path = format!("{WORKSPACE}/{}", inside(path)?);
    let guard = sandbox.session.enter().await?;
    let (session, found) = (sandbox.session.clone(), path.clone());
    let is_folder = blocking(move || {
        let _guard = guard;
        let (view, path) = View::find(&session, &found)?;
        Ok(view.look(&path, true)?.is_some_and(|found| found.kind == FileType::Directory))
    });
    match is_folder.await? {
        true => Ok(path),
        false => Err(Problem::new(ProblemCode::NotFound, "`cwd` is not a folder")),
    }
}

/// Returns the exit code of a program that has ended, and what to tell besides its output. One that
/// never ran is an error.
fn ending(program: &Program) -> Result<(i32, Option<String>), Status> {
    let told = |text: String| Some(format!("skillhost: {text}\n"));
    // The codes are those of the command line.
    Ok(match program.ending().unwrap_or_default() {
        Ending::Exited { code } => (i32::from(code), None),
        Ending::LimitHit(hit) if hit.limit == Limit::Timeout => (124, told(hit.explain())),
        Ending::LimitHit(hit) => (125, told(hit.explain())),
        Ending::Interrupted => (130, None),
        Ending::Trapped { message } => (134, told(format!("the guest trapped: {message}"))),
        Ending::Denied(denial) => {
            let fix = denial.fix.map(|fix| format!("; {fix}")).unwrap_or_default();
            let text = format!("{}: {}{fix}", denial.what, denial.rule);
            return Err(Status::permission_denied(text));
        }
        Ending::Invalid { message, .. } => return Err(Status::failed_precondition(message)),
        Ending::Failed { message, .. } => return Err(Status::internal(message)),
        Ending::Aborted { reason } => return Err(Status::aborted(reason)),
    })
}

/// Sends the events of a program.
struct Follower {
    sandbox: Sandbox,
    program: Arc<Program>,
    to: Sender<Events>,
    /// The output, once the program has started. It outlives the session.
    output: Option<[Arc<Spool>; 2]>,
    at: [u64; 2],
}

/// The client has gone, or does not read.
struct Gone;

impl Follower {
    async fn follow(&mut self) -> Result<(), Gone> {
        loop {
            // Asked before the output is read: what is written before the end is not missed.
            let has_ended = self.program.has_ended();
            let is_new = self.drain().await?;
            match (has_ended, is_new) {
                (true, false) => return self.finish().await,
                (true, true) => continue,
                (false, _) => {}
            }
            let (program, tenant) = (self.program.clone(), self.sandbox.tenant.clone());
            tokio::select! {
                () = program.end() => {}
                // What prints much is looked at again at once.
                () = tokio::time::sleep(POLL), if !is_new => {}
                () = tokio::task::yield_now(), if is_new => {}
                () = self.to.closed() => return Err(Gone),
                () = tenant.removed.cancelled() => return Err(Gone),
            }
        }
    }

    /// Sends some of what is new in both streams. Returns whether there was anything.
    async fn drain(&mut self) -> Result<bool, Gone> {
        let mut is_new = false;
        let (tenant, id) = (self.sandbox.tenant.clone(), self.program.id.clone());
        if self.output.is_none() {
            // A program has no output until it starts.
            self.output = tenant.state.live_output(&id);
        }
        for (index, stream) in StreamName::ALL.into_iter().enumerate() {
            // The program may have started and ended since the last look.
            let stored = match &self.output {
                Some(_) => None,
                None => tenant.state.output(&id, stream).ok(),
            };
            // Bounded, so that one stream does not hold up the other.
            for _ in 0..ROUND {
                let bytes = match (&self.output, &stored) {
                    (Some(spools), _) => spools[index].read_at(self.at[index], EVENT),
                    (None, Some(stored)) => stored.at(self.at[index], EVENT),
                    (None, None) => break,
                };
                let bytes = bytes.map_err(|_| Gone)?;
                if bytes.is_empty() {
                    break;
                }
                self.at[index] += bytes.len() as u64;
                is_new = true;
                let bytes = Bytes::from(bytes);
                self.send(match stream {
                    StreamName::Stdout => Event::Stdout(bytes),
                    StreamName::Stderr => Event::Stderr(bytes),
                })
                .await?;
            }
        }
        Ok(is_new)
    }

    async fn finish(&mut self) -> Result<(), Gone> {
        match ending(&self.program) {
            Ok((exit_code, note)) => {
                if let Some(note) = note {
                    self.send(Event::Stderr(note.into())).await?;
                }
                self.send(Event::Exit(ExitEvent { exit_code })).await
            }
            Err(status) => self.pass(Err(status)).await,
        }
    }

    async fn send(&self, event: Event) -> Result<(), Gone> {
        self.pass(Ok(StartResponse { event: Some(event) })).await
    }

    async fn pass(&self, event: Events) -> Result<(), Gone> {
        let sent = tokio::time::timeout(READ, self.to.send(event)).await;
        sent.map_err(|_| Gone)?.map_err(|_| Gone)
    }
}
