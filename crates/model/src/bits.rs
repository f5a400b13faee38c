//! Sets of flags that are stored and sent as one number.

/// Makes a tuple struct of one number a set of flags. With the number's type, the known bits and a
/// text, it also implements `TryFrom`: a number with unknown bits fails with the text.
#[doc(hidden)]
#[macro_export]
macro_rules! bit_set {
    ($set:ident, $bits:ty, $known:expr, $unknown:literal) => {
        $crate::bit_set!($set);

        impl TryFrom<$bits> for $set {
            type Error = &'static str;

            fn try_from(bits: $bits) -> Result<Self, Self::Error> {
                if bits & !$known == 0 { Ok(Self(bits)) } else { Err($unknown) }
            }
        }
    };
    ($set:ident) => {
        impl $set {
            /// The union of both sets.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The part that is not in `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// The intersection of both sets.
            #[must_use]
            pub const fn and(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }

            /// This set if `is_so`, else the empty set.
            #[must_use]
            pub const fn only_if(self, is_so: bool) -> Self {
                if is_so { self } else { Self(0) }
            }

            /// True if all of `other` is in this set.
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// True if some of `other` is in this set.
            pub const fn has_any(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// True if the set is empty.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }
        }
    };
}
