//! The responses to requests.

use std::{collections::HashMap, convert::Infallible};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};

use super::{Form, Load, Shape, Updates};
use crate::objects::FIRST_VERSION;

type Body = BoxBody<Bytes, Infallible>;

// === impl Load ===

impl Load {
    /// The default size of a page, in objects.
    const PAGE: usize = 500;

    pub(super) fn reply(
        self: &std::sync::Arc<Self>,
        request: &Request<Incoming>,
    ) -> Response<Body> {
        let query = request.uri().query().unwrap_or_default();
        let query: HashMap<_, _> = form_urlencoded::parse(query.as_bytes()).collect();
        let number = |name: &str| {
            query
                .get(name)
                .and_then(|value| value.parse::<usize>().ok())
        };
        let accept = request.headers().get(header::ACCEPT);
        let shape = Shape::of(accept.map_or(b"", HeaderValue::as_bytes));
        match request.uri().path() {
            "/bench/go" => {
                self.orders.send_modify(|orders| {
                    orders.round += 1;
                    orders.updates = Updates {
                        events: number("events").unwrap_or_default(),
                        rate: number("rate").unwrap_or_default() as u64,
                        hot: number("hot").unwrap_or_default() as u64,
                    };
                });
                answer(StatusCode::OK, Bytes::from_static(b"{}"))
            }
            "/bench/expire" => {
                self.orders.send_modify(|orders| orders.expired += 1);
                answer(StatusCode::OK, Bytes::from_static(b"{}"))
            }
            path if path == self.kind.path() && query.contains_key("watch") => {
                let initial = query.contains_key("sendInitialEvents");
                let frames = self.events(initial, shape);
                let frames = frames.map(|bytes| Ok(Frame::data(bytes)));
                json(BodyExt::boxed(StreamBody::new(frames)))
            }
            path if path == self.kind.path() => {
                let limit = number("limit").unwrap_or(Self::PAGE);
                answer(StatusCode::OK, self.page(shape, number("continue").unwrap_or(0), limit))
            }
            _ => answer(
                StatusCode::INTERNAL_SERVER_ERROR,
                Bytes::from_static(
                    br#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"broken on purpose","reason":"InternalError","code":500}"#,
                ),
            ),
        }
    }

    fn page(&self, shape: Shape, from: usize, limit: usize) -> Bytes {
        let to = (from + limit).min(self.count);
        let version = self.version(&self.orders.borrow());
        let token = if to < self.count {
            format!(",\"continue\":\"{to}\"")
        } else {
            String::new()
        };
        let form = self.form(shape);
        let mut page = Vec::with_capacity((to - from) * (form.item.len() + 1) + 200);
        let Form {
            kind, api_version, ..
        } = form;
        page.extend_from_slice(
            format!(
                "{{\"kind\":\"{kind}List\",\"apiVersion\":\"{api_version}\",\"metadata\":{{\"resourceVersion\":\"{version}\"{token}}},\"items\":["
            )
            .as_bytes(),
        );
        for index in from..to {
            if index > from {
                page.push(b',');
            }
            let version = FIRST_VERSION + index as u64;
            form.item.render(index, version, 0, &mut page);
        }
        page.extend_from_slice(b"]}");
        Bytes::from(page)
    }
}

fn answer(status: StatusCode, body: Bytes) -> Response<Body> {
    let mut response = json(Full::new(body).boxed());
    *response.status_mut() = status;
    response
}

fn json(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
