//! Names by the host's own resolver.

use super::gate::{Boxed, Resolve};
use crate::spec::HostName;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, watch};

/// Look-ups of one session at the same time.
const OF_ONE: usize = 16;
/// Look-ups of all sessions at the same time. Each keeps a thread of those that the whole engine
/// shares, for as long as the system's resolver takes.
const OF_ALL: usize = 64;

static ALL: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(OF_ALL)));

/// How long an answer is used again. The system's own time to live is not told by getaddrinfo(3);
/// whoever opens many connections at once gets one answer, and a changed one soon.
const FRESH: Duration = Duration::from_secs(10);
/// Answers kept for one session.
const KEPT: usize = 512;

/// Where the system keeps names that are not asked for over the network.
const HOSTS: &str = if cfg!(windows) {
    r"C:\Windows\System32\drivers\etc\hosts"
} else {
    "/etc/hosts"
};

/// The host's resolver: its hosts file, then what `getaddrinfo(3)` asks. One for each session, so
/// that none takes more than its part.
///
/// The name is asked for as an absolute one (with its final dot), so that no search domain of the
/// host can turn the name that was judged into another. The C library looks an absolute name up
/// in no hosts file, so that is done here.
#[derive(Clone)]
pub struct HostResolver(Arc<Shared>);

struct Shared {
    look_up: LookUp,
    /// Permits of the session, and of all.
    permits: [Arc<Semaphore>; 2],
    /// Names that are being looked up.
    flights: Mutex<HashMap<HostName, watch::Sender<Option<Found>>>>,
    /// Answers that are used again. Whoever dials checks the addresses anew each time.
    known: Mutex<HashMap<HostName, Known>>,
}

/// An answer, and under which circumstances it was given.
struct Known {
    addresses: Vec<IpAddr>,
    at: Instant,
    /// The state of the hosts file before the look-up: an edit there takes effect at once.
    hosts: Option<HostsState>,
}

/// Device, inode, size and time of change of the hosts file.
type HostsState = (u64, u64, u64, i64, i64);

type LookUp = Box<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

/// The end of a look-up, as all who wait for it can have it.
type Found = Result<Vec<IpAddr>, Arc<io::Error>>;

impl fmt::Debug for HostResolver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HostResolver")
            .finish_non_exhaustive()
    }
}

impl Default for HostResolver {
    fn default() -> Self {
        Self::by(look_up, Arc::clone(&ALL))
    }
}

impl Resolve for HostResolver {
    fn resolve<'a>(&'a self, name: &'a HostName) -> Boxed<'a, io::Result<Vec<IpAddr>>> {
        if let Some(known) = self.0.known(name) {
            return Box::pin(std::future::ready(Ok(known)));
        }
        let mut found = self.0.wait_for(name);
        Box::pin(async move {
            let found = found.wait_for(Option::is_some).await;
            match found.ok().and_then(|found| found.clone()) {
                Some(Ok(addresses)) => Ok(addresses),
                Some(Err(error)) => Err(io::Error::new(error.kind(), error)),
                None => Err(io::Error::other("the look-up failed")),
            }
        })
    }

    fn forget(&self, name: &HostName) {
        self.0.answers().remove(name);
    }
}

impl HostResolver {
    fn by(
        look_up: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
        all: Arc<Semaphore>,
    ) -> Self {
        Self(Arc::new(Shared {
            look_up: Box::new(look_up),
            permits: [Arc::new(Semaphore::new(OF_ONE)), all],
            flights: Mutex::default(),
            known: Mutex::default(),
        }))
    }
}

impl Shared {
    fn flights(&self) -> MutexGuard<'_, HashMap<HostName, watch::Sender<Option<Found>>>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<HostName, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer that is still good.
    fn known(&self, name: &HostName) -> Option<Vec<IpAddr>> {
        let mut known = self.answers();
        let answer = known.get(name)?;
        if answer.at.elapsed() < FRESH && answer.hosts == hosts_state() {
            return Some(answer.addresses.clone());
        }
        known.remove(name);
        None
    }

    fn keep(&self, name: &HostName, addresses: &[IpAddr], hosts: Option<HostsState>) {
        let mut known = self.answers();
        if known.len() >= KEPT {
            known.retain(|_, answer| answer.at.elapsed() < FRESH);
        }
        if known.len() < KEPT && !addresses.is_empty() {
            let answer = Known {
                addresses: addresses.to_vec(),
                at: Instant::now(),
                hosts,
            };
            known.insert(name.clone(), answer);
        }
    }

    /// Where the end of a name's look-up is told. One that goes on already is shared.
    fn wait_for(self: &Arc<Self>, name: &HostName) -> watch::Receiver<Option<Found>> {
        let mut flights = self.flights();
        if let Some(flight) = flights.get(name) {
            return flight.subscribe();
        }
        let (told, found) = watch::channel(None);
        flights.insert(name.clone(), told.clone());
        tokio::spawn(Arc::clone(self).fly(name.clone(), told));
        found
    }

    /// Looks a name up once there is room. A look-up that was begun keeps its room to its end,
    /// whether anybody still waits for it or not: its thread cannot be taken away.
    async fn fly(self: Arc<Self>, name: HostName, told: watch::Sender<Option<Found>>) {
        let permits = async {
            let [own, all] = &self.permits;
            let own = Arc::clone(own).acquire_owned().await;
            (own, Arc::clone(all).acquire_owned().await)
        };
        tokio::pin!(permits);
        let permits = loop {
            tokio::select! {
                biased;
                permits = &mut permits => break permits,
                () = told.closed() => {
                    let mut flights = self.flights();
                    // Somebody may have joined in between.
                    if told.receiver_count() == 0 {
                        flights.remove(&name);
                        return;
                    }
                }
            }
        };
        let own = Arc::clone(&self);
        let text = name.to_string();
        let found = tokio::task::spawn_blocking(move || {
            let hosts = hosts_state();
            let found = (own.look_up)(&text);
            drop(permits);
            (found, hosts)
        });
        let (found, hosts) = found
            .await
            .unwrap_or_else(|error| (Err(io::Error::other(error)), None));
        if let Ok(addresses) = &found {
            self.keep(&name, addresses, hosts);
        }
        self.flights().remove(&name);
        told.send_replace(Some(found.map_err(Arc::new)));
    }
}

#[cfg(unix)]
fn hosts_state() -> Option<HostsState> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(HOSTS).ok()?;
    Some((
        found.dev(),
        found.ino(),
        found.size(),
        found.ctime(),
        found.ctime_nsec(),
    ))
}

#[cfg(not(unix))]
fn hosts_state() -> Option<HostsState> {
    let found = std::fs::metadata(HOSTS).ok()?;
    let since = found
        .modified()
        .ok()?
        .duration_since(std::time::UNIX_EPOCH)
        .ok()?;
    let seconds = i64::try_from(since.as_secs()).ok()?;
    Some((0, 0, found.len(), seconds, since.subsec_nanos().into()))
}

fn look_up(name: &str) -> io::Result<Vec<IpAddr>> {
    if let Ok(text) = std::fs::read_to_string(HOSTS) {
        let addresses = in_hosts_file(&text, name);
        if !addresses.is_empty() {
            return Ok(addresses);
        }
    }
    let found = (format!("{name}."), 0).to_socket_addrs()?;
    Ok(found.map(|address| address.ip()).collect())
}

/// The addresses that a hosts file (hosts(5)) has for a name.
fn in_hosts_file(text: &str, name: &str) -> Vec<IpAddr> {
    text.lines()
        .filter_map(|line| {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let address = words.next()?.parse().ok()?;
            words
                .any(|word| word.eq_ignore_ascii_case(name))
                .then_some(address)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{FRESH, HostResolver, KEPT, OF_ONE, in_hosts_file};
    use crate::egress::gate::Resolve;
    use crate::spec::HostName;
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex, mpsc};
    use tokio::sync::Semaphore;

    const FOUND: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// A resolver whose look-ups end one by one, when they are let.
    struct Slow {
        begun: Arc<AtomicUsize>,
        end: mpsc::Sender<()>,
        resolver: HostResolver,
    }

    fn slow(all: &Arc<Semaphore>) -> Slow {
        let (end, may_end) = mpsc::channel();
        let may_end = Mutex::new(may_end);
        let begun = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&begun);
        let look_up = move |_: &str| {
            count.fetch_add(1, Ordering::SeqCst);
            // Without a sender any more, at the end of the test.
            let _ = may_end.lock().unwrap().recv();
            Ok(vec![FOUND])
        };
        Slow {
            begun,
            end,
            resolver: HostResolver::by(look_up, Arc::clone(all)),
        }
    }

    impl Slow {
        fn ask(&self, number: usize) -> tokio::task::JoinHandle<std::io::Result<Vec<IpAddr>>> {
            let resolver = self.resolver.clone();
            let name = HostName::parse(&format!("n{number}.example")).unwrap();
            tokio::spawn(async move { resolver.resolve(&name).await })
        }

        async fn until_begun(&self, count: usize) {
            while self.begun.load(Ordering::SeqCst) < count {
                tokio::task::yield_now().await;
            }
        }

        fn waiting(&self) -> usize {
            self.resolver.0.flights().len()
        }
    }

    #[tokio::test]
    async fn a_slow_resolver_takes_a_bounded_number_of_threads() {
        let all = Arc::new(Semaphore::new(OF_ONE + 4));
        let (one, other) = (slow(&all), slow(&all));
        let mut asked: Vec<_> = (0..100).map(|number| one.ask(number)).collect();
        one.until_begun(OF_ONE).await;
        // Another session has what is left of all, and no more.
        let others: Vec<_> = (0..100).map(|number| other.ask(number)).collect();
        other.until_begun(4).await;
        while one.waiting() + other.waiting() < 200 {
            tokio::task::yield_now().await;
        }
        assert_eq!(all.available_permits(), 0);
        // Whoever gives up leaves no wait behind, and frees no thread that is still taken.
        for handle in asked.split_off(OF_ONE).into_iter().chain(others) {
            handle.abort();
        }
        while one.waiting() + other.waiting() > OF_ONE + 4 {
            tokio::task::yield_now().await;
        }
        assert_eq!(all.available_permits(), 0);
        let begun = one.begun.load(Ordering::SeqCst) + other.begun.load(Ordering::SeqCst);
        assert_eq!(begun, OF_ONE + 4);
        for _ in 0..OF_ONE {
            one.end.send(()).unwrap();
        }
        for handle in asked {
            assert_eq!(handle.await.unwrap().unwrap(), [FOUND]);
        }
        // There is room again.
        let next = one.ask(100);
        one.until_begun(OF_ONE + 1).await;
        one.end.send(()).unwrap();
        assert_eq!(next.await.unwrap().unwrap(), [FOUND]);
    }

    #[tokio::test]
    async fn one_name_is_looked_up_once_for_all_who_wait() {
        let slow = slow(&Arc::new(Semaphore::new(OF_ONE)));
        let asked: Vec<_> = (0..50).map(|_| slow.ask(1)).collect();
        slow.until_begun(1).await;
        let resolver = &slow.resolver.0;
        let name = HostName::parse("n1.example").unwrap();
        let waiting = || {
            let flights = resolver.flights();
            flights.get(&name).map_or(0, |told| told.receiver_count())
        };
        while waiting() < 50 {
            tokio::task::yield_now().await;
        }
        slow.end.send(()).unwrap();
        for handle in asked {
            assert_eq!(handle.await.unwrap().unwrap(), [FOUND]);
        }
        assert_eq!(slow.begun.load(Ordering::SeqCst), 1);
        assert_eq!(slow.waiting(), 0);
    }

    #[tokio::test]
    async fn an_answer_is_used_again_until_it_is_forgotten_and_a_failure_never() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let look_up = move |name: &str| {
            count.fetch_add(1, Ordering::SeqCst);
            match name {
                "good.example" => Ok(vec![FOUND]),
                "empty.example" => Ok(Vec::new()),
                _ => Err(std::io::ErrorKind::NotFound.into()),
            }
        };
        let resolver = HostResolver::by(look_up, Arc::new(Semaphore::new(OF_ONE)));
        let ask = async |name: &str| {
            let before = asked.load(Ordering::SeqCst);
            let found = resolver.resolve(&HostName::parse(name).unwrap()).await;
            (found.ok(), asked.load(Ordering::SeqCst) - before)
        };
        assert_eq!(ask("good.example").await, (Some(vec![FOUND]), 1));
        assert_eq!(ask("good.example").await, (Some(vec![FOUND]), 0));
        resolver.forget(&HostName::parse("good.example").unwrap());
        assert_eq!(ask("good.example").await, (Some(vec![FOUND]), 1));
        for _ in 0..2 {
            assert_eq!(ask("bad.example").await, (None, 1));
            assert_eq!(ask("empty.example").await, (Some(Vec::new()), 1));
        }
        // An edit of the hosts file, or time, makes it look anew.
        let name = HostName::parse("good.example").unwrap();
        if let Some(known) = resolver.0.answers().get_mut(&name) {
            known.hosts = Some((0, 0, 0, 0, 0));
        }
        assert_eq!(ask("good.example").await, (Some(vec![FOUND]), 1));
        if let Some(known) = resolver.0.answers().get_mut(&name) {
            known.at -= FRESH;
        }
        assert_eq!(ask("good.example").await, (Some(vec![FOUND]), 1));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let resolver = HostResolver::by(|_| Ok(Vec::new()), Arc::new(Semaphore::new(1)));
        for number in 0..KEPT + 10 {
            let name = HostName::parse(&format!("n{number}.example")).unwrap();
            resolver.0.keep(&name, &[FOUND], None);
        }
        assert_eq!(resolver.0.answers().len(), KEPT);
    }

    #[test]
    fn a_hosts_file_is_read_by_whole_names_without_comments() {
        let text = "127.0.0.1 localhost\n# 192.0.2.9 example.com\n203.0.113.1\tExample.com www # x\n\
                    2001:db8::1 example.com\nrubbish example.com\n192.0.2.1 notexample.com\n";
        assert_eq!(
            in_hosts_file(text, "example.com"),
            [
                "203.0.113.1".parse::<IpAddr>().unwrap(),
                "2001:db8::1".parse().unwrap()
            ]
        );
        assert!(in_hosts_file(text, "x").is_empty());
    }
}
