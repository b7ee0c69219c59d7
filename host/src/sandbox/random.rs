//! One source of chance behind `wasi:random` 0.2 and 0.3, with a budget.

use std::sync::Arc;

use rand::Rng;
use rustix::io::Errno;
use wasmtime::component::{HasData, Linker};
use wasmtime_wasi::p2::bindings::random as p2;
use wasmtime_wasi::p3::bindings::random as p3;

use super::meter::Meter;

/// Marks the random interfaces' data in a linker.
pub(super) struct Random;

impl HasData for Random {
    type Data<'a> = RandomView<'a>;
}

/// What the random interfaces need of a store.
pub(super) struct RandomView<'a> {
    pub(super) meter: &'a Arc<Meter>,
}

impl RandomView<'_> {
    fn bytes(&self, len: u64) -> wasmtime::Result<Vec<u8>> {
        // Charged before it is allocated: the length is the guest's.
        self.meter.charge_random(len)?;
        let mut bytes = vec![0; usize::try_from(len)?];
        rand::rng().fill_bytes(&mut bytes);
        Ok(bytes)
    }

    fn word(&self) -> wasmtime::Result<u64> {
        self.meter.charge_random(8)?;
        Ok(rand::rng().next_u64())
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

/// Fills a buffer, as a device does.
pub(super) fn fill(meter: &Meter, buffer: &mut [u8]) -> Result<(), Errno> {
    meter.charge_random(buffer.len() as u64).map_err(|_| Errno::IO)?;
    rand::rng().fill_bytes(buffer);
    Ok(())
}

/// 0.3 may hand out fewer bytes than asked for: at most this many a call.
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
pub(super) fn add_p2_to_linker<T: 'static>(linker: &mut Linker<T>, get: fn(&mut T) -> RandomView<'_>) -> wasmtime::Result<()> {
    p2::random::add_to_linker::<T, Random>(linker, get)?;
    p2::insecure::add_to_linker::<T, Random>(linker, get)?;
    p2::insecure_seed::add_to_linker::<T, Random>(linker, get)
}

/// Links `wasi:random` 0.3.
pub(super) fn add_p3_to_linker<T: 'static>(linker: &mut Linker<T>, get: fn(&mut T) -> RandomView<'_>) -> wasmtime::Result<()> {
    p3::random::add_to_linker::<T, Random>(linker, get)?;
    p3::insecure::add_to_linker::<T, Random>(linker, get)?;
    p3::insecure_seed::add_to_linker::<T, Random>(linker, get)
}
