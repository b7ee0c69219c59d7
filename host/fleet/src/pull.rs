//! Asks a queue for messages.
//!
//! NATS before 2.9.16 forgets a request without an answer if a message arrives just as the request expires. So a
//! worker asks again soon, and keeps listening for answers to its earlier requests. The broker delivers a message to
//! one worker at a time, so a late one must be executed or given back.

use std::time::Duration;

use async_nats::jetstream;
use async_nats::{Message, StatusCode, Subject, Subscriber};
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{BoxStream, SelectAll};
use tokio::time::{Instant, timeout_at};

use crate::broker::{Broker, unavailable};
use crate::names;
use skillhost_server::api::fleet::{FleetError, RunClass};

/// How long a broker keeps a request for a message. It answers by then, also while the tenant has as
/// many runs as it may, so that no request is left to which it would give a later message. The place
/// for a run is held meanwhile, so it is short.
const ASKED: Duration = Duration::from_millis(50);
/// How much later an answer may come before the worker asks again. It waits twice as long each time: a broker that
/// does not answer because it is busy may answer all requests later.
const LATE: Duration = Duration::from_millis(200);
/// How long a broker may take to answer any of the requests.
const ANSWER: Duration = Duration::from_secs(5);

/// A queue that a worker takes runs from.
pub(crate) struct Queue {
    broker: Broker,
    /// Where to ask for a message.
    subject: String,
    /// Announcements of new runs.
    pub(crate) hints: Subscriber,
    /// How often to say that a run is in progress.
    pub(crate) period: Duration,
}

/// A message of a queue.
pub(crate) struct Delivery {
    pub(crate) broker: Broker,
    pub(crate) payload: Bytes,
    /// Where to acknowledge it.
    pub(crate) reply: Subject,
    /// Its position in the stream.
    pub(crate) message: u64,
    /// How often it was delivered, from 1.
    pub(crate) delivery: u64,
}

/// Answers, each with the number of its request.
type Answers = SelectAll<BoxStream<'static, (u32, Message)>>;

impl Queue {
    /// Opens the queue of a class.
    ///
    /// # Errors
    /// The broker cannot be reached, or has no such queue.
    pub(crate) async fn open(
        broker: Broker,
        tenant: &str,
        class: RunClass,
    ) -> Result<Queue, FleetError> {
        let hints = broker.client.subscribe(names::hint(tenant, class)).await;
        let hints = hints.map_err(|error| unavailable(&error))?;
        let info = broker.queue_info(tenant, class).await?;
        let (stream, class) = (names::queue_stream(tenant), class.name());
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{class}");
        Ok(Queue { broker, subject, hints, period: info.config.ack_wait / 4 })
    }

    /// Asks for one message. `None`: nothing waits, or the tenant's quota of runs is used up.
    ///
    /// # Errors
    /// The broker does not answer, or refuses.
    pub(crate) async fn next(&self) -> Result<Option<Delivery>, FleetError> {
        let mut answers = Answers::new();
        let until = Instant::now() + ANSWER;
        let mut wait = ASKED + LATE;
        let mut requests = 0;
        let found = loop {
            requests += 1;
            match self.ask(requests).await {
                Ok(more) => answers.push(more),
                Err(error) => break Err(error),
            }
            let end = until.min(Instant::now() + wait);
            match timeout_at(end, self.answer(&mut answers, requests)).await {
                Ok(answer) => break answer,
                Err(_) if end == until => break Err(unavailable(&"the queue does not answer")),
                Err(_) => wait *= 2,
            }
        };
        if requests > 1 {
            tracing::debug!(queue = self.subject, requests, "the queue forgot a request");
            self.give_back_late(answers);
        }
        found
    }

    /// Checks whether no run waits and none is in progress anywhere. Until that changes, no place is taken
    /// to ask for a run: a worker may serve many tenants that have none.
    pub(crate) async fn is_empty(&mut self, tenant: &str, class: RunClass) -> bool {
        let Ok(info) = self.broker.queue_info(tenant, class).await else { return false };
        // A server may have been started with another time.
        self.period = info.config.ack_wait / 4;
        info.num_pending == 0 && info.num_ack_pending == 0
    }

    /// Sends a request. A message keeps the subject of its stream, so that an answer needs a subscription of its
    /// own, and each request has one.
    async fn ask(&self, request: u32) -> Result<BoxStream<'static, (u32, Message)>, FleetError> {
        let client = &self.broker.client;
        let inbox = client.new_inbox();
        let answers = client.subscribe(inbox.clone()).await;
        let answers = answers.map_err(|error| unavailable(&error))?;
        let text = format!(r#"{{"batch":1,"expires":{}}}"#, ASKED.as_nanos());
        let sent = client.publish_with_reply(self.subject.clone(), inbox, text.into()).await;
        sent.map_err(|error| unavailable(&error))?;
        Ok(answers.map(move |message| (request, message)).boxed())
    }

    /// Waits for a message, or until the broker answers the last request that it has none.
    async fn answer(
        &self,
        answers: &mut Answers,
        last: u32,
    ) -> Result<Option<Delivery>, FleetError> {
        loop {
            let answer = answers.next().await;
            let (request, message) =
                answer.ok_or_else(|| unavailable(&"the connection is closed"))?;
            match message.status {
                None => return self.delivery(message),
                // Another request waits.
                Some(_) if request < last => {}
                Some(StatusCode::NOT_FOUND | StatusCode::TIMEOUT) => return Ok(None),
                Some(status) if status.as_u16() == 409 => return Ok(None),
                Some(status) => {
                    return Err(unavailable(&format!("the queue answers {status}")));
                }
            }
        }
    }

    fn delivery(&self, message: Message) -> Result<Option<Delivery>, FleetError> {
        let Some(reply) = message.reply.clone() else { return Ok(None) };
        let payload = message.payload.clone();
        let message = jetstream::Message { message, context: self.broker.context.clone() };
        let info = message.info().map_err(|error| unavailable(&error))?;
        // A count, which is not negative.
        let delivery = u64::try_from(info.delivered).unwrap_or_default();
        let broker = self.broker.clone();
        Ok(Some(Delivery { broker, payload, reply, message: info.stream_sequence, delivery }))
    }

    /// Gives back messages that arrive late. Without this, the broker would deliver them again only when their
    /// acknowledgement is overdue, after 30 seconds.
    fn give_back_late(&self, mut answers: Answers) {
        let broker = self.broker.clone();
        let until = Instant::now() + ANSWER;
        tokio::spawn(async move {
            while let Ok(Some((_, message))) = timeout_at(until, answers.next()).await {
                if let (None, Some(reply)) = (message.status, message.reply) {
                    broker.tell(reply.to_string(), "-NAK".into()).await;
                }
            }
        });
    }
}
