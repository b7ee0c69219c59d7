//! Prints its arguments, the names of its environment variables and its working directory.

use skillhost_guest::{env, println};

#[skillhost_guest::main]
async fn main(args: Vec<String>) {
    println!("hello from {}", args.first().map_or("a component", String::as_str));
    for argument in args.iter().skip(1) {
        println!("argument: {argument}");
    }
    for (name, _) in env::vars() {
        println!("variable: {name}");
    }
    println!("working directory: {}", env::current_dir().display());
}
