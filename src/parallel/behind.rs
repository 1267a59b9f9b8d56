//! Writing while what comes next is made.

use std::{
    io::{self, BufWriter, Write},
    mem,
    panic::resume_unwind,
    sync::{
        Mutex, PoisonError,
        mpsc::{Receiver, SyncSender, channel, sync_channel},
    },
    thread,
};

/// What is handed over at a time.
const BLOCK: usize = 256 << 10;
/// How many blocks may wait to be written.
const WAITING: usize = 4;

/// Calls `work` with a writer whose bytes another thread writes to `out`, in their order. All are written when this
/// returns, unless something failed.
///
/// # Errors
/// What `out` reports, else what `work` returns.
pub fn write_behind<T>(
    out: &mut (dyn Write + Send),
    work: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<T>,
) -> io::Result<T> {
    let (full, to_write) = sync_channel::<Vec<u8>>(WAITING);
    let (written, free) = channel();
    // Taken by the thread, if there is one.
    let out = Mutex::new(Some(out));
    let take = || out.lock().unwrap_or_else(PoisonError::into_inner).take().expect("BUG: it is taken once");
    thread::scope(|scope| {
        let writer = thread::Builder::new().spawn_scoped(scope, || {
            let out = take();
            for block in to_write {
                out.write_all(&block)?;
                // Nobody takes it after the last one.
                let _ = written.send(block);
            }
            out.flush()
        });
        let Ok(writer) = writer else {
            let mut out = BufWriter::with_capacity(BLOCK, take());
            return work(&mut out).and_then(|done| out.flush().map(|()| done));
        };
        let mut behind = Behind { block: Vec::with_capacity(BLOCK), full, free };
        let worked = work(&mut behind).and_then(|done| behind.hand_over().map(|()| done));
        drop(behind);
        writer.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        worked
    })
}

struct Behind {
    block: Vec<u8>,
    full: SyncSender<Vec<u8>>,
    /// Blocks that were written.
    free: Receiver<Vec<u8>>,
}

impl Behind {
    fn hand_over(&mut self) -> io::Result<()> {
        let mut next = self.free.try_recv().unwrap_or_else(|_| Vec::with_capacity(BLOCK));
        next.clear();
        // The other thread ends early only for an error, which it tells itself.
        self.full.send(mem::replace(&mut self.block, next)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Behind {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.block.len() + bytes.len() > BLOCK && !self.block.is_empty() {
            self.hand_over()?;
        }
        self.block.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hand_over()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes.
    struct Small(Vec<u8>, usize);

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.1 - self.0.len() {
                0 => Err(io::ErrorKind::StorageFull.into()),
                room => self.0.write(&bytes[..bytes.len().min(room)]),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn all_bytes_come_in_their_order() {
        for piece in [1, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK] {
            let pieces: Vec<Vec<u8>> = (0..20u8).map(|n| vec![n; piece]).collect();
            let mut out = Small(Vec::new(), usize::MAX);
            let told = write_behind(&mut out, |out| {
                pieces.iter().try_for_each(|piece| out.write_all(piece)).map(|()| "told")
            });
            assert_eq!(told.unwrap(), "told");
            assert!(out.0 == pieces.concat(), "pieces of {piece}");
        }
    }

    #[test]
    fn the_error_of_the_file_is_told_and_ends_the_work() {
        let mut out = Small(Vec::new(), 3 * BLOCK + 7);
        let mut given = 0u64;
        let failed = write_behind(&mut out, |out| {
            loop {
                out.write_all(&[7; 1000])?;
                given += 1;
                assert!(given < 1_000_000, "nobody stopped it");
            }
            #[expect(unreachable_code, reason = "the type of the result")]
            Ok(())
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(out.0.len(), 3 * BLOCK + 7);
    }

    #[test]
    fn the_error_of_the_work_is_told() {
        let mut out = Small(Vec::new(), usize::MAX);
        let failed = write_behind(&mut out, |out| {
            out.write_all(&[7; 2 * BLOCK])?;
            Err::<(), _>(io::Error::other("on purpose"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "on purpose");
    }
}
