//! What a session's network gets from inside: connections, and who makes them.

use crate::api::Actor;
use crate::egress::gate::{Boxed, Ends, Route};
use crate::egress::pair::PairSockets;
use crate::egress::session::WhoAsks;
use crate::egress::stream::{Accept, Accepted};
use crate::process::{Inside, Listener, SessionSockets};
use kotak_guard::proto::Transport;
use std::io;

/// Most bytes of a command line that is shown.
const COMMAND_BYTES: usize = 4096;

/// Asks the guard who connects.
pub(super) struct GuardWho(pub(super) Inside);

impl WhoAsks for GuardWho {
    fn who(&self, route: Route, Ends { client, local }: Ends) -> Boxed<'_, Option<Actor>> {
        Box::pin(async move {
            let found = match route {
                // A query comes by either, mostly by UDP.
                Route::Dns => match self.0.who_connects(Transport::Udp, client, local).await {
                    None => self.0.who_connects(Transport::Tcp, client, local).await,
                    found => found,
                },
                Route::Connect
                | Route::Http
                | Route::Socks
                | Route::Transparent
                | Route::Forward
                | Route::Socket => self.0.who_connects(Transport::Tcp, client, local).await,
            };
            found.map(|found| Actor {
                pid: found.pid,
                name: shown(&found.comm),
                executable: found.executable.as_deref().map(shown),
                command: shown(&found.argv.join(" ")),
                cwd: found.cwd.as_deref().map(shown),
                parents: found.parents.iter().map(|name| shown(name)).collect(),
            })
        })
    }
}

/// Text of a program, bounded, with everything that could mislead made visible.
fn shown(text: &str) -> String {
    crate::text::printable_start(text, COMMAND_BYTES / 4)
}

/// A listener inside, as the proxies accept on it.
pub(super) struct FromInside(pub(super) Listener);

impl Accept for FromInside {
    fn accept(&mut self) -> Boxed<'_, io::Result<Accepted>> {
        Box::pin(async move {
            let accepted = self.0.accept().await?;
            if let Err(error) = accepted.stream.set_nodelay() {
                tracing::debug!(%error, "a socket could not be tuned");
            }
            Ok(Accepted {
                stream: Box::new(accepted.stream),
                client: accepted.client,
                local: accepted.local,
            })
        })
    }
}

/// A session's listeners as its pair of proxies takes them.
pub(super) fn pair_sockets(sockets: SessionSockets) -> PairSockets {
    let boxed = |listener| -> Box<dyn Accept> { Box::new(FromInside(listener)) };
    let mut pair = PairSockets {
        http: vec![boxed(sockets.http)],
        socks: vec![boxed(sockets.socks)],
        ..PairSockets::default()
    };
    if let Some(direct) = sockets.direct {
        pair.dns_udp = vec![direct.dns_udp];
        pair.dns_tcp = vec![boxed(direct.dns_tcp)];
        pair.transparent = direct
            .transparent
            .into_iter()
            .map(|(_, listener)| boxed(listener))
            .collect();
    }
    pair
}
