//! Many at once, and one container in every order.

use super::{Node, texts};
use crate::Command;
use std::collections::BTreeSet;
use std::sync::Mutex;

#[test]
fn sixteen_threads_never_share_an_address() {
    const THREADS: usize = 16;
    const ROUNDS: usize = 60;
    let node = Node::new(r#""ranges":[[{"subnet":"10.1.2.0/27"}],[{"subnet":"2001:db8::/64"}]]"#);
    let held = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (node, held) = (&node, &held);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let container = format!("c{thread}-{round}");
                    let addresses = node.add(&container).unwrap();
                    for address in &addresses {
                        assert!(held.lock().unwrap().insert(address.clone()), "{address} given twice");
                    }
                    assert_eq!(node.add(&container).unwrap(), addresses);
                    for address in &addresses {
                        held.lock().unwrap().remove(address);
                    }
                    node.del(&container);
                }
            });
        }
    });
    assert!(node.leases().is_empty());
    node.assert_sealed();
}

/// As many containers as addresses: every one gets one.
#[test]
fn a_full_range_set_serves_everybody() {
    let node = Node::subnet("10.1.2.0/27");
    let addresses = std::thread::scope(|scope| {
        let node = &node;
        let adds: Vec<_> = (0..29).map(|i| scope.spawn(move || node.add(&format!("c{i}")).unwrap())).collect();
        adds.into_iter().flat_map(|add| add.join().unwrap()).collect::<BTreeSet<_>>()
    });
    assert_eq!(addresses.len(), 29);
    assert_eq!(node.call(Command::Status, "", 0).unwrap_err().code, 50);
}

/// Every order in which the lock can let through the calls of one container that began at times 1, 2, 3 and so on:
/// what is left at the end is what the latest calls to begin have left.
#[test]
fn every_interleaving_of_one_container() {
    use Command::{Add, Del};
    let histories: [&[Command]; 6] =
        [&[Add, Del], &[Add, Del, Add], &[Add, Add, Del], &[Del, Add], &[Add, Del, Del], &[Add, Del, Add, Del]];
    for history in histories {
        for order in permutations(history.len()) {
            let node = Node::subnet("10.1.2.0/24");
            let mut answers = BTreeSet::new();
            for &call in &order {
                let outcome = node.call(history[call], "c", call as u64 + 1);
                let buried = || order.iter().take_while(|&&c| c != call).any(|&c| history[c] == Del && c > call);
                match history[call] {
                    Add if buried() => assert_eq!(outcome.unwrap_err().code, 11, "{history:?} {order:?}"),
                    Add => answers.extend(texts(outcome.map(Option::unwrap)).unwrap()),
                    _ => assert_eq!(outcome, Ok(None)),
                }
                assert!(node.leases().len() <= 1, "{history:?} {order:?}");
            }
            let last_add = order.iter().rposition(|&c| history[c] == Add && is_alive(history, &order, c));
            let last_del = order.iter().rposition(|&c| history[c] == Del);
            assert_eq!(node.leases().len(), usize::from(last_add > last_del), "{history:?} {order:?}");
            if history.last() == Some(&Del) {
                node.del("c");
                assert!(node.leases().is_empty());
            }
            node.assert_indexed();
        }
    }
}

/// Whether an ADD is let through: no DEL that began later came before it.
fn is_alive(history: &[Command], order: &[usize], call: usize) -> bool {
    let before = order.iter().take_while(|&&c| c != call);
    history[call] == Command::Add && !before.into_iter().any(|&c| history[c] == Command::Del && c > call)
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let insert = |order: Vec<usize>| {
        (0..n).map(move |at| {
            let mut order = order.clone();
            order.insert(at, n - 1);
            order
        })
    };
    permutations(n - 1).into_iter().flat_map(insert).collect()
}
