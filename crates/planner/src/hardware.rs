//! Speeds of a machine that the cost model goes by: measured, never looked up.

use lamina_base::DType;

/// Seconds of one multiply-accumulate of a product, by the rows that are multiplied at once.
///
/// Kernels change their way with the number of rows, so a line through two points would be wrong in between: times are
/// interpolated between neighbours, and go on like the last two behind the end.
#[derive(Clone, Debug, PartialEq)]
pub struct ProductSpeed {
    /// Rows, ascending, and the seconds that a product of so many rows takes, divided by the size of the matrix.
    pub points: Vec<(usize, f64)>,
}

impl ProductSpeed {
    /// Seconds of a product of `rows` rows with one weight number.
    pub fn seconds(&self, rows: f64) -> f64 {
        let Some(&(first, least)) = self.points.first() else { return 0.0 };
        if rows <= first as f64 {
            return least;
        }
        let above = self.points.iter().position(|p| p.0 as f64 >= rows).unwrap_or(self.points.len() - 1);
        if above == 0 {
            return least * rows / first as f64;
        }
        let ((x0, y0), (x1, y1)) = (self.points[above - 1], self.points[above]);
        y0 + (y1 - y0) * (rows - x0 as f64) / (x1 - x0) as f64
    }

    /// True where more rows take no less time.
    fn is_monotonic(&self) -> bool {
        self.points.windows(2).all(|pair| pair[0].1 <= UNEVEN * pair[1].1)
    }

    /// With times of fewer rows that are no longer than those of more.
    fn monotonic(mut self) -> ProductSpeed {
        let mut least = f64::INFINITY;
        for (_, seconds) in self.points.iter_mut().rev() {
            least = least.min(*seconds);
            *seconds = least;
        }
        self
    }

    /// The shorter time of both for each number of rows.
    fn best(mut self, other: &ProductSpeed) -> ProductSpeed {
        for (rows, seconds) in &mut self.points {
            let same = other.points.iter().find(|p| p.0 == *rows);
            *seconds = same.map_or(*seconds, |p| p.1.min(*seconds));
        }
        self
    }
}

/// Fewer rows may take so much longer than more by chance.
const UNEVEN: f64 = 1.25;

/// What a device does in a second.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    /// Bytes per second that all threads read from memory.
    pub ram: f64,
    /// Products by the type of their weights.
    pub products: Vec<(DType, ProductSpeed)>,
    /// Seconds of a multiply-accumulate of attention, where a sequence has one row.
    pub attend_one: f64,
    /// The same where it has many.
    pub attend_many: f64,
    /// Seconds that an operator takes whatever it does.
    pub operator: f64,
    /// Threads that compute.
    pub threads: usize,
}

impl Hardware {
    /// Those of `types` whose products were not measured.
    pub fn missing(&self, types: &[DType]) -> Vec<DType> {
        types.iter().filter(|t| !self.products.iter().any(|p| p.0 == **t)).copied().collect()
    }

    /// True where no time contradicts another: one row of a product takes no longer than four.
    pub fn is_monotonic(&self) -> bool {
        self.products.iter().all(|(_, speed)| speed.is_monotonic())
    }

    /// With times that do not contradict one another: what more rows take is enough for fewer.
    #[must_use]
    pub fn monotonic(self) -> Hardware {
        let products = self.products.into_iter().map(|(dtype, speed)| (dtype, speed.monotonic()));
        Hardware { products: products.collect(), ..self }
    }

    /// The better of both in everything, for the products of this one.
    #[must_use]
    pub fn best(self, other: Hardware) -> Hardware {
        let better = |(dtype, speed): (DType, ProductSpeed)| {
            let same = other.products.iter().find(|p| p.0 == dtype);
            (dtype, same.map_or(speed.clone(), |(_, other)| speed.best(other)))
        };
        Hardware {
            ram: self.ram.max(other.ram),
            products: self.products.into_iter().map(better).collect(),
            attend_one: self.attend_one.min(other.attend_one),
            attend_many: self.attend_many.min(other.attend_many),
            operator: self.operator.min(other.operator),
            threads: self.threads,
        }
    }

    /// Speed of products with weights of a type; that of the slowest known one for others.
    pub fn product(&self, dtype: DType) -> Option<&ProductSpeed> {
        let slowest = || {
            let by_row = |a: &&(DType, ProductSpeed), b: &&(DType, ProductSpeed)| {
                a.1.seconds(64.0).total_cmp(&b.1.seconds(64.0))
            };
            self.products.iter().max_by(by_row)
        };
        self.products.iter().find(|p| p.0 == dtype).or_else(slowest).map(|p| &p.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_lie_between_their_neighbours_and_go_on_behind_the_last() {
        let speed = ProductSpeed { points: vec![(1, 2.0), (8, 4.0), (64, 32.0)] };
        let at = |rows: f64| speed.seconds(rows);
        assert_eq!(
            [at(0.5), at(1.0), at(8.0), at(36.0), at(64.0), at(120.0)],
            [2.0, 2.0, 4.0, 18.0, 32.0, 60.0]
        );
        assert!(at(4.0) > 2.0 && at(4.0) < 4.0);
        assert_eq!(ProductSpeed { points: vec![] }.seconds(3.0), 0.0);
    }
}
