//! The one source of randomness behind `wasi:random` 0.2 and 0.3, with a budget.

use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::ChaCha20Rng;
use rand::{Rng, SeedableRng as _};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use wasmtime::component::{HasData, Linker};
use wasmtime_wasi::p2::bindings::random as p2;
use wasmtime_wasi::p3::bindings::random as p3;

use crate::limits::Meter;
use skillhost_policy::determinism::Determinism;

/// Marks [`RandomView`] as what the bindings get.
pub(crate) struct Random;

impl HasData for Random {
    type Data<'a> = RandomView<'a>;
}

/// What the interfaces need of a store's data.
pub(crate) struct RandomView<'a> {
    pub(crate) meter: &'a Arc<Meter>,
    pub(crate) source: &'a mut RandomSource,
}

/// A source of random bytes.
pub(crate) enum RandomSource {
    /// The host's generator.
    Host,
    /// The same in every run.
    Seeded(SeededStream),
}

/// The random bytes of a deterministic run: a ChaCha20 stream. Its key is the SHA-256 digest of a
/// label, the run's seed and the program's number, the latter two as 8 bytes, little-endian.
pub(crate) struct SeededStream(Box<ChaCha20Rng>);

impl SeededStream {
    /// The stream of a program, by its number: they count from 1 in the order of their starts.
    /// Devices use 0.
    pub(crate) fn new(seed: u64, program: u64) -> SeededStream {
        let mut key = Sha256::new_with_prefix(b"skillhost chance 1");
        key.update(seed.to_le_bytes());
        key.update(program.to_le_bytes());
        SeededStream(Box::new(ChaCha20Rng::from_seed(key.finalize().into())))
    }
}

impl RandomSource {
    fn fill(&mut self, buffer: &mut [u8]) {
        match self {
            RandomSource::Host => rand::rng().fill_bytes(buffer),
            RandomSource::Seeded(SeededStream(stream)) => stream.fill_bytes(buffer),
        }
    }
}

impl RandomView<'_> {
    fn bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        // Charge before allocating: the guest chooses the length.
        self.meter.charge_random(len)?;
        let mut bytes = vec![0; usize::try_from(len)?];
        self.source.fill(&mut bytes);
        Ok(bytes)
    }

    fn word(&mut self) -> wasmtime::Result<u64> {
        self.meter.charge_random(8)?;
        let mut bytes = [0; 8];
        self.source.fill(&mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }
}

impl p2::random::Host for RandomView<'_> {
    fn get_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.bytes(len)
    }
    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        self.word()
    }
}

impl p2::insecure::Host for RandomView<'_> {
    fn get_insecure_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.bytes(len)
    }
    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        self.word()
    }
}

impl p2::insecure_seed::Host for RandomView<'_> {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        Ok((self.word()?, self.word()?))
    }
}

/// Returns a function that fills a buffer as `/dev/random`.
pub(crate) fn device(
    meter: &Arc<Meter>,
    determinism: Option<Determinism>,
) -> impl Fn(&mut [u8]) -> Result<(), Errno> + Send + Sync + 'static {
    let meter = meter.clone();
    let source = determinism
        .map_or(RandomSource::Host, |start| RandomSource::Seeded(SeededStream::new(start.seed, 0)));
    let source = Mutex::new(source);
    move |buffer| {
        meter.charge_random(buffer.len() as u64).map_err(|_| Errno::IO)?;
        source.lock().unwrap_or_else(PoisonError::into_inner).fill(buffer);
        Ok(())
    }
}

/// WASI 0.3 allows returning fewer bytes than requested. This is the most per call.
const CHUNK: u64 = 1 << 20;

impl p3::random::Host for RandomView<'_> {
    fn get_random_bytes(&mut self, max: u64) -> wasmtime::Result<Vec<u8>> {
        self.bytes(max.min(CHUNK))
    }
    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        self.word()
    }
}

impl p3::insecure::Host for RandomView<'_> {
    fn get_insecure_random_bytes(&mut self, max: u64) -> wasmtime::Result<Vec<u8>> {
        self.bytes(max.min(CHUNK))
    }
    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        self.word()
    }
}

impl p3::insecure_seed::Host for RandomView<'_> {
    fn get_insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        Ok((self.word()?, self.word()?))
    }
}

/// Links `wasi:random` 0.2.
pub(crate) fn add_p2_to_linker<T: 'static>(
    linker: &mut Linker<T>,
    get: fn(&mut T) -> RandomView<'_>,
) -> wasmtime::Result<()> {
    p2::random::add_to_linker::<T, Random>(linker, get)?;
    p2::insecure::add_to_linker::<T, Random>(linker, get)?;
    p2::insecure_seed::add_to_linker::<T, Random>(linker, get)
}

/// Links `wasi:random` 0.3.
pub(crate) fn add_p3_to_linker<T: 'static>(
    linker: &mut Linker<T>,
    get: fn(&mut T) -> RandomView<'_>,
) -> wasmtime::Result<()> {
    p3::random::add_to_linker::<T, Random>(linker, get)?;
    p3::insecure::add_to_linker::<T, Random>(linker, get)?;
    p3::insecure_seed::add_to_linker::<T, Random>(linker, get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_stream_matches_its_definition() {
        let bytes = |seed, program| {
            let mut bytes = [0; 8];
            RandomSource::Seeded(SeededStream::new(seed, program)).fill(&mut bytes);
            bytes
        };
        // Computed by `openssl enc -chacha20` over zeros, with the key by this definition.
        assert_eq!(bytes(0, 1), GOLDEN);
        assert_eq!(bytes(0, 1), bytes(0, 1));
        assert!(
            bytes(0, 1) != bytes(0, 2) && bytes(0, 1) != bytes(1, 1) && bytes(1, 2) != bytes(2, 1)
        );
    }

    const GOLDEN: [u8; 8] = [0x77, 0x08, 0xa5, 0xa5, 0x78, 0xb8, 0xc7, 0x79];
}
