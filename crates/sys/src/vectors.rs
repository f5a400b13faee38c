//! Work on many numbers at once, with instructions that only some processors have.

/// Work that benefits from such instructions.
pub trait VectorWork {
    /// Its result.
    type Output;

    /// Runs the work. This method, and the functions that it calls, must be `#[inline(always)]` to
    /// be compiled for these instructions.
    fn run(self) -> Self::Output;
}

/// Runs `work`, compiled for the widest vectors that this processor has and that are worth it.
pub fn with_vectors<W: VectorWork>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor was just found to support the instructions that this is compiled
        // for.
        #[allow(unsafe_code)]
        return unsafe { with_avx2(work) };
    }
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<W: VectorWork>(work: W) -> W::Output {
    work.run()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sum<'n>(&'n [u32]);

    impl VectorWork for Sum<'_> {
        type Output = u32;

        #[inline(always)]
        fn run(self) -> u32 {
            self.0.iter().fold(0, |sum, number| sum.wrapping_mul(5) ^ number)
        }
    }

    #[test]
    fn work_is_the_same_with_any_vectors() {
        let numbers: Vec<u32> = (0..1_000).map(|number| number * 77_777).collect();
        assert_eq!(with_vectors(Sum(&numbers)), Sum(&numbers).run());
    }
}
