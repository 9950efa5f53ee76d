//! From the events of a watch to what there is: pure.

use kube::runtime::watcher::Event;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Which object of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Empty for a kind without namespaces.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// The key of an object.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// One object that came, went or is another now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change<T> {
    pub(crate) key: Key,
    pub(crate) before: Option<Arc<T>>,
    pub(crate) after: Option<Arc<T>>,
}

/// What a watch has told so far.
#[derive(Debug)]
pub(crate) struct Fold<T> {
    objects: BTreeMap<Key, Arc<T>>,
    /// A list that is not complete yet. Until it is, what was known stands: a part of a list says nothing of the rest.
    listing: Option<BTreeMap<Key, Arc<T>>>,
    is_complete: bool,
}

impl<T> Default for Fold<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), listing: None, is_complete: false }
    }
}

impl<T: PartialEq> Fold<T> {
    /// What there is.
    pub(crate) const fn objects(&self) -> &BTreeMap<Key, Arc<T>> {
        &self.objects
    }

    /// Whether a list has been complete.
    pub(crate) const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Takes in an event, of an object what is kept of it; `None` is as good as not there.
    pub(crate) fn take_in(&mut self, event: Event<(Key, Option<T>)>) -> Vec<Change<T>> {
        match event {
            Event::Init => {
                self.listing = Some(BTreeMap::new());
                Vec::new()
            }
            Event::InitApply((key, object)) => {
                if let (Some(listing), Some(object)) = (&mut self.listing, object) {
                    listing.insert(key, Arc::new(object));
                }
                Vec::new()
            }
            Event::InitDone => match self.listing.take() {
                Some(listed) => self.replace(listed),
                None => Vec::new(),
            },
            Event::Apply((key, object)) => self.put(key, object.map(Arc::new)).into_iter().collect(),
            Event::Delete((key, _)) => self.put(key, None).into_iter().collect(),
        }
    }

    /// A list is complete: what is not in it is gone.
    fn replace(&mut self, mut listed: BTreeMap<Key, Arc<T>>) -> Vec<Change<T>> {
        self.is_complete = true;
        let known: Vec<Key> = self.objects.keys().cloned().collect();
        let mut changes = Vec::new();
        for key in known {
            let after = listed.remove(&key);
            changes.extend(self.put(key, after));
        }
        for (key, object) in listed {
            changes.extend(self.put(key, Some(object)));
        }
        changes
    }

    fn put(&mut self, key: Key, after: Option<Arc<T>>) -> Option<Change<T>> {
        let before = self.objects.get(&key).cloned();
        if before == after {
            return None;
        }
        match &after {
            Some(object) => self.objects.insert(key.clone(), object.clone()),
            None => self.objects.remove(&key),
        };
        Some(Change { key, before, after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(name: &str, object: u32) -> (Key, Option<u32>) {
        (Key::new("ns", name), Some(object))
    }

    fn known(fold: &Fold<u32>) -> Vec<(&str, u32)> {
        fold.objects().iter().map(|(key, object)| (key.name.as_str(), **object)).collect()
    }

    fn listed(fold: &mut Fold<u32>, objects: &[(&str, u32)]) -> Vec<Change<u32>> {
        assert_eq!(fold.take_in(Event::Init), []);
        for (name, object) in objects {
            assert_eq!(fold.take_in(Event::InitApply(at(name, *object))), [], "a part of a list changes nothing");
        }
        fold.take_in(Event::InitDone)
    }

    fn names(changes: &[Change<u32>]) -> Vec<&str> {
        changes.iter().map(|change| change.key.name.as_str()).collect()
    }

    #[test]
    fn nothing_is_known_before_the_first_list_is_complete() {
        let mut fold = Fold::default();
        fold.take_in(Event::Init);
        fold.take_in(Event::InitApply(at("a", 1)));
        assert!(!fold.is_complete() && known(&fold).is_empty());
        assert_eq!(names(&fold.take_in(Event::InitDone)), ["a"]);
        assert!(fold.is_complete());
        assert_eq!(known(&fold), [("a", 1)]);
    }

    #[test]
    fn an_empty_list_is_complete_too() {
        let mut fold = Fold::default();
        assert_eq!(listed(&mut fold, &[]), []);
        assert!(fold.is_complete());
    }

    #[test]
    fn a_new_list_tells_what_differs_and_nothing_else() {
        let mut fold = Fold::default();
        listed(&mut fold, &[("a", 1), ("b", 1), ("c", 1)]);
        let changes = listed(&mut fold, &[("a", 1), ("b", 2), ("d", 1)]);
        let rows =
            changes.iter().map(|c| (c.key.name.as_str(), c.before.as_deref().copied(), c.after.as_deref().copied()));
        let rows: Vec<_> = rows.collect();
        assert_eq!(rows, [("b", Some(1), Some(2)), ("c", Some(1), None), ("d", None, Some(1))]);
        assert_eq!(known(&fold), [("a", 1), ("b", 2), ("d", 1)]);
    }

    #[test]
    fn a_list_that_breaks_off_takes_nothing_away() {
        let mut fold = Fold::default();
        listed(&mut fold, &[("a", 1), ("b", 1)]);
        fold.take_in(Event::Init);
        fold.take_in(Event::InitApply(at("a", 1)));
        assert_eq!(known(&fold), [("a", 1), ("b", 1)]);
        assert_eq!(listed(&mut fold, &[("a", 1), ("b", 1)]), [], "the half list is forgotten");
    }

    #[test]
    fn the_watch_goes_on_from_the_list() {
        let mut fold = Fold::default();
        listed(&mut fold, &[("a", 1)]);
        assert_eq!(names(&fold.take_in(Event::Apply(at("b", 1)))), ["b"]);
        assert_eq!(fold.take_in(Event::Apply(at("b", 1))), [], "nothing that is kept has changed");
        assert_eq!(names(&fold.take_in(Event::Apply(at("b", 2)))), ["b"]);
        assert_eq!(names(&fold.take_in(Event::Delete(at("a", 1)))), ["a"]);
        assert_eq!(fold.take_in(Event::Delete(at("a", 1))), []);
        assert_eq!(known(&fold), [("b", 2)]);
    }

    #[test]
    fn what_is_not_kept_is_as_good_as_gone() {
        let mut fold = Fold::default();
        listed(&mut fold, &[("a", 1), ("b", 1)]);
        assert_eq!(names(&fold.take_in(Event::Apply((Key::new("ns", "a"), None)))), ["a"]);
        assert_eq!(fold.take_in(Event::Apply((Key::new("ns", "c"), None))), []);
        assert_eq!(known(&fold), [("b", 1)]);
    }

    #[test]
    fn names_are_of_a_namespace() {
        let mut fold = Fold::default();
        listed(&mut fold, &[("a", 1)]);
        assert_eq!(fold.take_in(Event::Delete((Key::new("other", "a"), Some(1)))), []);
        assert_eq!(known(&fold), [("a", 1)]);
        assert_eq!((Key::new("ns", "a").to_string(), Key::new("", "a").to_string()), ("ns/a".into(), "a".into()));
    }
}
