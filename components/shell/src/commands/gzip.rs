//! `zcat`.

use std::io::Read as _;

use async_trait::async_trait;
use bashkit::{Command, CommandContext, CommandStatus, Result};
use flate2::read::MultiGzDecoder;

use super::{absolute, fail, reason, standard_input};

/// Bytes per write.
const CHUNK: usize = 64 * 1024;

pub(super) struct Zcat;

#[async_trait]
impl Command for Zcat {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let mut code = 0;
        let files: Vec<_> = context
            .args
            .iter()
            .filter(|arg| *arg == "-" || !arg.starts_with('-'))
            .cloned()
            .collect();
        for file in if files.is_empty() { vec!["-".to_owned()] } else { files } {
            let bytes = if file == "-" {
                standard_input(&context).await?
            } else {
                match context.fs.read_file(&absolute(&context, &file)).await {
                    Ok(bytes) => bytes,
                    Err(error) => {
                        code = fail(&context, &format!("gzip: {file}: {}\n", reason(&error)), 1)
                            .await?
                            .exit_code;
                        continue;
                    }
                }
            };
            let mut decoder = MultiGzDecoder::new(&bytes[..]);
            let mut chunk = vec![0; CHUNK];
            loop {
                match decoder.read(&mut chunk) {
                    Ok(0) => break,
                    Ok(count) => context.stdout.write_all(&chunk[..count]).await?,
                    Err(_) => {
                        code = fail(&context, &format!("gzip: {file}: not in gzip format\n"), 1)
                            .await?
                            .exit_code;
                        break;
                    }
                }
            }
        }
        Ok(CommandStatus::with_code(code))
    }
}
