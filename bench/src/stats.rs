//! Numbers about many measurements.

use std::time::Duration;

/// Measurements of one thing, in milliseconds unless the place that makes them says otherwise.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample(Vec<f64>);

impl Sample {
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64() * 1000.0);
    }

    pub(crate) fn add_number(&mut self, number: f64) {
        self.0.push(number);
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The value below which this part of the measurements lies. 0 where there are none.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        let at = (part * last as f64).round() as usize;
        sorted.get(at.min(last)).copied().unwrap_or(0.0)
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub(crate) fn min(&self) -> f64 {
        self.quantile(0.0)
    }

    pub(crate) fn max(&self) -> f64 {
        self.quantile(1.0)
    }

    /// How the measurements spread, for people.
    pub(crate) fn spread(&self) -> String {
        format!(
            "n {}, min {:.2}, p90 {:.2}, p99 {:.2}, max {:.2}",
            self.len(),
            self.min(),
            self.quantile(0.9),
            self.quantile(0.99),
            self.max()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_few_and_of_none() {
        assert!(Sample::default().median().abs() < f64::EPSILON);
        let sample = Sample(vec![3.0, 1.0, 2.0]);
        assert!((sample.median() - 2.0).abs() < f64::EPSILON);
        assert!((sample.quantile(0.99) - 3.0).abs() < f64::EPSILON);
    }
}
