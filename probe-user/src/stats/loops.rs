//! Timed loops of as many operations each.

use super::Thousandths;

/// What is needed of them, however many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loops {
    /// Of each loop.
    operations: u64,
    count: u64,
    sum_ns: u128,
    first_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl Loops {
    /// The first loop; `None` without operations.
    pub(crate) fn first(operations: u64, elapsed_ns: u64) -> Option<Self> {
        (operations > 0).then_some(Self {
            operations,
            count: 1,
            sum_ns: u128::from(elapsed_ns),
            first_ns: elapsed_ns,
            min_ns: elapsed_ns,
            max_ns: elapsed_ns,
        })
    }

    /// One more of as many operations.
    pub(crate) fn add(&mut self, elapsed_ns: u64) {
        self.count += 1;
        self.sum_ns += u128::from(elapsed_ns);
        self.min_ns = self.min_ns.min(elapsed_ns);
        self.max_ns = self.max_ns.max(elapsed_ns);
    }

    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    pub(crate) const fn operations(&self) -> u64 {
        self.operations
    }

    /// ns an operation over all loops: the mean of the loops' own, unrounded, ones.
    pub(crate) fn mean(&self) -> Option<Thousandths> {
        self.per_operation(self.sum_ns, self.count)
    }

    /// The same without the first loop.
    pub(crate) fn mean_without_first(&self) -> Option<Thousandths> {
        self.per_operation(self.sum_ns - u128::from(self.first_ns), self.count - 1)
    }

    pub(crate) fn min(&self) -> Option<Thousandths> {
        self.per_operation(self.min_ns.into(), 1)
    }

    pub(crate) fn max(&self) -> Option<Thousandths> {
        self.per_operation(self.max_ns.into(), 1)
    }

    fn per_operation(&self, ns: u128, loops: u64) -> Option<Thousandths> {
        let operations = i128::from(loops) * i128::from(self.operations);
        Thousandths::of_ratio(i128::try_from(ns).ok()?, operations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_rounded_once() {
        let mut loops = Loops::first(3, 10).expect("operations");
        assert_eq!(loops.mean_without_first(), None);
        for elapsed_ns in [11, 11] {
            loops.add(elapsed_ns);
        }
        let text = |number: Option<Thousandths>| number.expect("a number").to_string();
        // 32 / 9; the mean of the rounded ones would be 3.5556 as well, of 3.333 and 3.667.
        assert_eq!(text(loops.mean()), "3.556");
        assert_eq!(text(loops.mean_without_first()), "3.667");
        assert_eq!(
            (text(loops.min()), text(loops.max())),
            ("3.333".to_owned(), "3.667".to_owned())
        );
        assert_eq!((loops.count(), loops.operations()), (3, 3));
        assert_eq!(Loops::first(0, 1), None);
    }
}
