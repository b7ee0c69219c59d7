//! Measures how well search ranks on the labelled questions of `tests/search`: recall at 5,
//! reciprocal rank, and the questions that fail.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "a benchmark prints its results, and panics if it cannot run"
)]

#[path = "../tests/catalog/labelled.rs"]
mod labelled;

fn main() {
    let labelled::Figures { questions, recall_at_5, reciprocal_rank, missed } = labelled::figures();
    println!("{questions} questions over 200 skills");
    println!("recall@5         {recall_at_5:.3}");
    println!("reciprocal rank  {reciprocal_rank:.3}");
    for (question, found) in missed {
        println!("missed: {question}: {}", found.join(", "));
    }
}
