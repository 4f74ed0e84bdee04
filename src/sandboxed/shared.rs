//! Equal data of commands that run at the same time, kept once.
//!
//! A command may run for days, and a host may have a thousand of them: most under the same policy, of which each would
//! otherwise hold copies of its own.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::policy::{EffectivePolicy, SyscallRule};

/// Values that are remembered; a value beyond them is kept as often as it is wanted.
const REMEMBERED: usize = 16;

/// What the commands of one executor share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    policies: Kept<EffectivePolicy>,
    rules: Kept<[SyscallRule]>,
}

impl Shared {
    pub(super) fn policy(&self, policy: EffectivePolicy) -> Arc<EffectivePolicy> {
        self.policies.of(policy)
    }

    pub(super) fn rules(&self, rules: &[SyscallRule]) -> Arc<[SyscallRule]> {
        self.rules.of(rules)
    }
}

/// Values of one type, each for as long as somebody has it.
#[derive(Debug)]
struct Kept<T: ?Sized> {
    known: Mutex<VecDeque<Weak<T>>>,
}

impl<T: ?Sized> Default for Kept<T> {
    fn default() -> Self {
        Self { known: Mutex::default() }
    }
}

impl<T: ?Sized + PartialEq> Kept<T> {
    /// The value itself, or the equal one that somebody has already.
    fn of<V: Into<Arc<T>> + std::borrow::Borrow<T>>(&self, value: V) -> Arc<T> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|one| one.strong_count() > 0);
        let equal = known.iter().rev().filter_map(Weak::upgrade).find(|one| **one == *value.borrow());
        equal.unwrap_or_else(|| {
            let value = value.into();
            if known.len() == REMEMBERED {
                known.pop_front();
            }
            known.push_back(Arc::downgrade(&value));
            value
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_while_somebody_has_them() {
        let kept = Kept::<str>::default();
        let first = kept.of("one");
        assert!(Arc::ptr_eq(&first, &kept.of("one")));
        assert!(!Arc::ptr_eq(&first, &kept.of("two")));
        let gone = Arc::downgrade(&first);
        drop(first);
        assert!(gone.upgrade().is_none(), "nothing is held for its own sake");
        let many: Vec<_> = (0..40).map(|number| kept.of(number.to_string().as_str())).collect();
        assert!(kept.known.lock().unwrap().len() <= REMEMBERED);
        assert!(Arc::ptr_eq(&many[39], &kept.of("39")));
    }
}
