//! A model server on loopback that keeps what it is asked and always gives the same reply: Anthropic's Messages API, or
//! OpenAI's chat completions, both streaming. One thread a connection, one request each.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use serde_json::{Value, json};

use super::session::REPLY;
use crate::record::Agent;

/// A client that is silent for so long is not waited for.
const SILENCE: Duration = Duration::from_secs(10);
const LONGEST_HEAD: u64 = 64 * 1024;
const LONGEST_BODY: u64 = 64 * 1024 * 1024;

/// A request for a reply.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// The body.
    pub body: Value,
    raw: String,
}

impl Request {
    /// Whether the word is anywhere in it.
    pub fn holds(&self, word: &str) -> bool {
        self.raw.contains(word)
    }
}

/// The running server.
pub(super) struct Model {
    port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
    stopping: Arc<AtomicBool>,
    listening: Option<JoinHandle<()>>,
}

impl Model {
    /// Listens on a free port of 127.0.0.1.
    pub fn start(agent: Agent) -> io::Result<Model> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let (requests, stopping) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (kept, stop) = (Arc::clone(&requests), Arc::clone(&stopping));
        let listening = thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::Acquire) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                let kept = Arc::clone(&kept);
                // What a client does wrong here shows in the requests that are missing.
                thread::spawn(move || drop(answer(agent, &stream, &kept)));
            }
        });
        Ok(Model { port, requests, stopping, listening: Some(listening) })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends it. All requests so far, in the order of their arrival.
    pub fn stop(mut self) -> Vec<Request> {
        self.end();
        std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn end(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // Wakes the listener, which then ends.
        let _ = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)), SILENCE);
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        if self.listening.is_some() {
            self.end();
        }
    }
}

fn answer(agent: Agent, stream: &TcpStream, kept: &Mutex<Vec<Request>>) -> io::Result<()> {
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (reader.by_ref().take(LONGEST_HEAD), 0);
    let mut first = String::new();
    head.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        if head.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
        }
    }
    let mut body = Vec::new();
    reader.take(length.min(LONGEST_BODY)).read_to_end(&mut body)?;
    let mut words = first.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    let parsed: Option<Value> = serde_json::from_slice(&body).ok();
    let asked =
        parsed.filter(|body| method == "POST" && path == path_of(agent) && body["messages"].is_array());
    match asked {
        Some(body) => {
            let reply = reply(agent, &body["model"]);
            let request = Request { raw: body.to_string(), body };
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            respond(stream, "200 OK", "text/event-stream", &reply)
        }
        None if method == "HEAD" => respond(stream, "200 OK", "text/plain", ""),
        None => {
            let error = json!({"type": "error", "error": {"type": "not_found_error", "message": "not here"}});
            respond(stream, "404 Not Found", "application/json", &error.to_string())
        }
    }
}

fn respond(mut stream: &TcpStream, status: &str, kind: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes())
}

fn path_of(agent: Agent) -> &'static str {
    if agent == Agent::Claude { "/v1/messages" } else { "/v1/chat/completions" }
}

fn reply(agent: Agent, model: &Value) -> String {
    if agent == Agent::Claude { messages(model) } else { completions(model) }
}

fn messages(model: &Value) -> String {
    let usage = json!({"input_tokens": 10, "output_tokens": 1});
    let end = json!({"stop_reason": "end_turn", "stop_sequence": null});
    let events = [
        json!({"type": "message_start", "message": {"id": "msg_probe", "type": "message", "role": "assistant",
            "model": model, "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": REPLY}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": end, "usage": {"output_tokens": 3}}),
        json!({"type": "message_stop"}),
    ];
    let event = |e: Value| format!("event: {}\ndata: {e}\n\n", e["type"].as_str().unwrap_or_default());
    events.map(event).concat()
}

fn completions(model: &Value) -> String {
    let chunk = |delta: Value, finish: Value| {
        json!({"id": "chatcmpl-probe", "object": "chat.completion.chunk", "created": 1_767_225_600, "model": model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    };
    let said = chunk(json!({"role": "assistant", "content": REPLY}), Value::Null);
    let mut last = chunk(json!({}), json!("stop"));
    last["usage"] = json!({"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13});
    format!("data: {said}\n\ndata: {last}\n\ndata: [DONE]\n\n")
}
