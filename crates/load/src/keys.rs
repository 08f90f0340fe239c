//! Keys for SCRAM: kept, so that a thousand clients that connect at once derive one set, and derived
//! in a thread of their own, so that nothing else waits for that.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use pgdyno_wire::{Salt, ScramKeys};

use crate::pool::LinkRef;
use crate::sys::lock;

/// Most sets that are kept. A server has one salt per role; some poolers draw one per connection.
const KEPT_MAX: usize = 32;

/// Owner of keys, beside the password, which is one for all of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyId {
    /// Number of the host.
    pub host: usize,
    /// Role.
    pub user: String,
    /// As the server named it.
    pub salt: Salt,
}

/// Keys with their owner.
#[derive(Debug)]
pub struct Derived {
    /// Their owner.
    pub id: KeyId,
    /// The keys.
    pub keys: ScramKeys,
}

/// The answer to one who needs keys.
#[derive(Debug)]
pub enum Answer {
    /// Here they are.
    Here(Arc<Derived>),
    /// They come by mail.
    Later,
    /// They come by mail if the caller sees to it that [`Keys::next_job`] is called.
    LaterIfDerived,
}

/// Keys of a load.
#[derive(Debug, Default)]
pub struct Keys(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Oldest first.
    kept: VecDeque<Arc<Derived>>,
    jobs: VecDeque<Job>,
    /// A thread works on the jobs.
    deriving: bool,
}

/// Keys to be derived.
#[derive(Debug)]
struct Job {
    id: KeyId,
    waiting: Vec<LinkRef>,
    /// Nobody waits for longer.
    until_ns: u64,
}

impl Keys {
    /// Keys that were derived before.
    pub fn find(&self, id: &KeyId) -> Option<Arc<Derived>> {
        lock(&self.0).find(id)
    }

    /// Keeps keys.
    pub fn keep(&self, derived: Arc<Derived>) {
        lock(&self.0).keep(derived);
    }

    /// Keys for a connection, which waits for them no longer than `until_ns`.
    pub fn request(&self, id: KeyId, link: LinkRef, until_ns: u64) -> Answer {
        let mut state = lock(&self.0);
        if let Some(derived) = state.find(&id) {
            return Answer::Here(derived);
        }
        if let Some(job) = state.jobs.iter_mut().find(|job| job.id == id) {
            job.waiting.push(link);
            job.until_ns = job.until_ns.max(until_ns);
        } else {
            let waiting = vec![link];
            state.jobs.push_back(Job {
                id,
                waiting,
                until_ns,
            });
        }
        if std::mem::replace(&mut state.deriving, true) {
            Answer::Later
        } else {
            Answer::LaterIfDerived
        }
    }

    /// The next keys to derive. Jobs that came too late for all who waited are left out.
    pub fn next_job(&self, now_ns: u64) -> Option<KeyId> {
        let mut state = lock(&self.0);
        while state.jobs.front().is_some_and(|job| job.until_ns < now_ns) {
            state.jobs.pop_front();
        }
        let id = state.jobs.front().map(|job| job.id.clone());
        state.deriving = id.is_some();
        id
    }

    /// Keeps what was derived; the connections that wait for it.
    pub fn finish(&self, derived: &Arc<Derived>) -> Vec<LinkRef> {
        let mut state = lock(&self.0);
        state.keep(Arc::clone(derived));
        let place = state.jobs.iter().position(|job| job.id == derived.id);
        let job = place.and_then(|place| state.jobs.remove(place));
        job.map_or_else(Vec::new, |job| job.waiting)
    }
}

impl State {
    fn find(&self, id: &KeyId) -> Option<Arc<Derived>> {
        self.kept.iter().find(|it| it.id == *id).map(Arc::clone)
    }

    fn keep(&mut self, derived: Arc<Derived>) {
        if self.kept.len() == KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(derived);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn link(id: u64) -> LinkRef {
        LinkRef {
            thread: 0,
            slot: 0,
            id,
        }
    }

    /// Few of each part, so that ids agree in some of them.
    fn any_id() -> impl Strategy<Value = KeyId> {
        let salt = prop::collection::vec(0_u8..2, 1..3);
        (0_usize..2, "[ab]", salt, 1_u32..3).prop_map(|(host, user, bytes, iterations)| KeyId {
            host,
            user,
            salt: Salt {
                bytes: bytes.into(),
                iterations: iterations.try_into().expect("above 0"),
            },
        })
    }

    fn derived(id: &KeyId) -> Arc<Derived> {
        Arc::new(Derived {
            id: id.clone(),
            keys: ScramKeys::derive(b"password", &id.salt),
        })
    }

    proptest! {
        /// Whoever asks gets the keys of the same host, role, salt and iteration count, at once or
        /// by mail, and each is answered once; what is kept is bounded.
        #[test]
        fn nobody_gets_the_keys_of_another(
            ids in prop::collection::vec((any_id(), any::<bool>()), 1..100),
        ) {
            let keys = Keys::default();
            let mut wanted = Vec::new();
            let mut answered = Vec::new();
            let mut works = false;
            for (number, (id, derives)) in ids.into_iter().enumerate() {
                wanted.push(id.clone());
                match keys.request(id.clone(), link(number as u64), 9) {
                    Answer::Here(found) => answered.push((number, found)),
                    Answer::Later => prop_assert!(works),
                    Answer::LaterIfDerived => prop_assert!(!std::mem::replace(&mut works, true)),
                }
                while derives && works {
                    let Some(id) = keys.next_job(9) else { works = false; break };
                    let found = derived(&id);
                    for link in keys.finish(&found) {
                        answered.push((usize::try_from(link.id).expect("few"), Arc::clone(&found)));
                    }
                }
            }
            while let Some(id) = keys.next_job(9) {
                let found = derived(&id);
                for link in keys.finish(&found) {
                    answered.push((usize::try_from(link.id).expect("few"), Arc::clone(&found)));
                }
            }
            prop_assert_eq!(answered.len(), wanted.len());
            for (number, found) in answered {
                prop_assert_eq!(&found.id, &wanted[number]);
            }
            prop_assert!(lock(&keys.0).kept.len() <= KEPT_MAX);
        }
    }

    #[test]
    fn what_nobody_waits_for_any_more_is_not_derived() {
        let keys = Keys::default();
        let id = |byte: u8| KeyId {
            host: 0,
            user: "u".into(),
            salt: Salt {
                bytes: [byte].into(),
                iterations: std::num::NonZeroU32::MIN,
            },
        };
        for byte in 0..200 {
            keys.request(id(byte), link(1), u64::from(byte));
        }
        assert_eq!(keys.next_job(150), Some(id(150)));
        for byte in 0..200 {
            keys.keep(derived(&id(byte)));
        }
        assert!(keys.find(&id(0)).is_none());
        assert!(keys.find(&id(199)).is_some());
        assert!(keys.next_job(1000).is_none());
    }
}
