//! The program: parse, call, exit code.

fn main() -> std::process::ExitCode {
    brasa::cli::run(std::env::args_os())
}
