//! What waits, and how long.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::super::queue::{Batch, Job, Queue};
use crate::conformance::sample::Book;
use crate::contract::{AppendError, Urgency};
use crate::encode;

type Answer = oneshot::Receiver<Result<(), AppendError>>;

fn job(name: &str, urgency: Urgency, bytes: usize) -> (Job, Answer) {
    let (reply, answer) = oneshot::channel();
    let mut append = encode::encode(Book::new(name).open(1)).unwrap();
    append.bytes = bytes;
    (Job { append, urgency, since: Instant::now(), reply }, answer)
}

fn push(queue: &Queue, name: &str, urgency: Urgency) -> Answer {
    let (job, answer) = job(name, urgency, 100);
    queue.push(job).unwrap();
    answer
}

fn names(batch: &Batch) -> Vec<&str> {
    batch.jobs.iter().map(|job| job.append.session.as_str()).collect()
}

/// One commit for everything that waits, in the order in which it came.
#[test]
fn lazy_ones_ride_with_the_next_urgent_one() {
    let queue = Queue::default();
    let _answers = [
        push(&queue, "a", Urgency::Lazy),
        push(&queue, "b", Urgency::Now),
        push(&queue, "c", Urgency::Lazy),
        push(&queue, "d", Urgency::Now),
        push(&queue, "e", Urgency::Lazy),
    ];
    let batch = queue.take().unwrap();
    assert_eq!(names(&batch), ["a", "b", "c", "d", "e"]);
    assert!(batch.durable);
}

#[test]
fn lazy_ones_alone_go_when_they_have_waited_or_are_many() {
    let queue = Queue::default();
    let (mut old, _answer) = job("old", Urgency::Lazy, 100);
    old.since = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
    queue.push(old).unwrap();
    let _answer = push(&queue, "new", Urgency::Lazy);
    let batch = queue.take().unwrap();
    assert_eq!(names(&batch), ["old", "new"]);
    assert!(!batch.durable, "nobody waits for it");

    let (large, _answer) = job("large", Urgency::Lazy, 2 * 1024 * 1024);
    queue.push(large).unwrap();
    assert_eq!(names(&queue.take().unwrap()), ["large"]);

    // None of them has waited, but the queue is shut.
    let _answer = push(&queue, "last", Urgency::Lazy);
    drop(queue.shut());
    let batch = queue.take().unwrap();
    assert_eq!(names(&batch), ["last"]);
    assert!(batch.durable, "nothing comes after it");
    assert!(queue.take().is_none());
}

#[test]
fn a_batch_is_bounded_and_the_rest_keeps_its_order() {
    let queue = Queue::default();
    let names_of = |count: usize| (0..count).map(|number| format!("s{number}")).collect::<Vec<_>>();
    let all = names_of(1500);
    let _answers: Vec<_> = all.iter().map(|name| push(&queue, name, Urgency::Now)).collect();
    let first = queue.take().unwrap();
    let rest = queue.take().unwrap();
    assert_eq!((first.jobs.len(), rest.jobs.len()), (1024, 476));
    assert_eq!([names(&first), names(&rest)].concat(), all);

    // By bytes; one that is larger than the bound goes alone.
    let sizes = [3, 3, 9, 1, 1, 1];
    for (name, size) in all.iter().zip(sizes) {
        queue.push(job(name, Urgency::Now, size * 1024 * 1024).0).unwrap();
    }
    let batches: Vec<usize> = (0..4).map(|_| queue.take().unwrap().jobs.len()).collect();
    assert_eq!(batches, [1, 1, 1, 3]);
}

#[test]
fn too_much_is_refused_at_once() {
    let queue = Queue::default();
    let mut answers = Vec::new();
    let refused = loop {
        let (job, answer) = job("s", Urgency::Now, 10);
        match queue.push(job) {
            Ok(()) => answers.push(answer),
            Err(error) => break error,
        }
    };
    assert_eq!(answers.len(), 16 * 1024);
    assert!(matches!(&refused, AppendError::Unavailable(why) if why.contains("overloaded")), "{refused}");
    while !queue.take().unwrap().jobs.is_empty() {
        answers.drain(..1024);
        if answers.is_empty() {
            break;
        }
    }

    // By bytes; what is larger than all the room is taken when it comes alone.
    queue.push(job("huge", Urgency::Now, 100 * 1024 * 1024).0).unwrap();
    assert!(queue.push(job("s", Urgency::Now, 1).0).is_err());
    queue.take().unwrap();
    queue.push(job("s", Urgency::Now, 1).0).unwrap();
}

/// A writer that ends leaves nobody waiting.
#[test]
fn the_end_answers_everybody() {
    let queue = Queue::default();
    let mut waiting = push(&queue, "s", Urgency::Now);
    let mut shut = queue.shut();
    assert!(shut.try_recv().is_err());
    queue.end();
    assert_eq!(waiting.try_recv().unwrap(), Err(AppendError::Shut));
    assert_eq!(shut.try_recv(), Ok(()));
    assert!(queue.push(job("s", Urgency::Now, 1).0).is_err());
    assert_eq!(queue.shut().blocking_recv().ok(), None);
}
