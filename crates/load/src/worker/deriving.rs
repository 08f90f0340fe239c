//! The thread in which keys for authentication are derived, while there are any to derive.

use std::sync::Arc;

use crate::keys::Derived;
use crate::shared::{Mail, Shared};
use crate::sys::monotonic_ns;
use crate::target::Target;

/// Derives what is to be derived, in a thread; here if there can be no thread.
pub(super) fn derive_in_background(shared: &Arc<Shared>) {
    let theirs = Arc::downgrade(shared);
    let thread = std::thread::Builder::new()
        .name("pgdyno-keys".into())
        // It ends with the load.
        .spawn(move || while theirs.upgrade().is_some_and(|shared| derive_one(&shared)) {});
    if thread.is_err() {
        while derive_one(shared) {}
    }
}

/// False if there is nothing to derive.
fn derive_one(shared: &Shared) -> bool {
    let job = |target: &'_ Arc<Target>| {
        let id = target.keys.next_job(monotonic_ns())?;
        Some((Arc::clone(target), id))
    };
    let Some((target, id)) = shared.targets.iter().find_map(job) else {
        return false;
    };
    let keys = target.identity.derive_keys(&id.salt);
    let derived = Arc::new(Derived { id, keys });
    for link in target.keys.finish(&derived) {
        shared.mailboxes[link.thread].post(Mail::Keys(link, Arc::clone(&derived)));
    }
    true
}
