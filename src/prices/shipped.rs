//! The price tables that ship in the binary: on-demand prices by region and instance type.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::cloud::{Currency, Family};
use crate::instance_types::Day;

const AWS: &str = include_str!("../../prices/aws.tsv");
const AZURE: &str = include_str!("../../prices/azure.tsv");

static SHIPPED_AWS: LazyLock<PriceTable> = LazyLock::new(|| PriceTable::parse(AWS));
static SHIPPED_AZURE: LazyLock<PriceTable> = LazyLock::new(|| PriceTable::parse(AZURE));

/// Prices are stored as millionths: exact for every shipped figure, in a third of the memory of a text.
const MICROS: f64 = 1_000_000.0;

/// The on-demand prices of one cloud.
#[derive(Debug, Default)]
pub(super) struct PriceTable {
    regions: Vec<(&'static str, Day)>,
    /// By name in lower case: the type's row.
    rows: HashMap<Box<str>, usize>,
    /// Millionths, row by row; 0 for no price.
    prices: Vec<u32>,
}

impl PriceTable {
    /// The table of a cloud. It is parsed at first use.
    pub(super) fn shipped(family: Family) -> &'static Self {
        match family {
            Family::Aws => &SHIPPED_AWS,
            Family::Azure => &SHIPPED_AZURE,
        }
    }

    fn parse(text: &'static str) -> Self {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let heading = lines.next().unwrap_or_default().split('\t').skip(1);
        let regions = heading.filter_map(|cell| cell.split_once(' '));
        let regions = regions.filter_map(|(region, date)| Some((region, Day::parse(date)?)));
        let mut table = Self { regions: regions.collect(), ..Self::default() };
        for line in lines {
            let mut cells = line.split('\t');
            let name = cells.next().unwrap_or_default().to_ascii_lowercase();
            table.rows.insert(name.into(), table.rows.len());
            let cells = cells.chain(std::iter::repeat("")).take(table.regions.len());
            table.prices.extend(cells.map(micros));
        }
        table.rows.shrink_to_fit();
        table.prices.shrink_to_fit();
        table
    }

    /// The price of a type in a region, and its date.
    pub(super) fn price(&self, region: &str, type_name: &str) -> Option<(f64, Day)> {
        let column = self.regions.iter().position(|(name, _)| *name == region)?;
        Some((self.at(*self.row(type_name)?, column)?, self.regions.get(column)?.1))
    }

    /// The price of a type in the first of all regions that has one, and that region.
    pub(super) fn anywhere(&self, type_name: &str, currency: Currency) -> Option<(f64, &'static str)> {
        let row = *self.row(type_name)?;
        let mut regions = self.regions.iter().enumerate().filter(|(_, (region, _))| currency_of(region) == currency);
        regions.find_map(|(column, (region, _))| Some((self.at(row, column)?, *region)))
    }

    /// The types with a price in a region.
    pub(super) fn types(&self, region: &str) -> impl Iterator<Item = (&str, f64)> {
        let column = self.regions.iter().position(|(name, _)| *name == region);
        self.rows.iter().filter_map(move |(name, row)| Some((&**name, self.at(*row, column?)?)))
    }

    /// The regions. The first one's figures stand in for regions without a table.
    pub(super) fn regions(&self) -> impl Iterator<Item = &'static str> {
        self.regions.iter().map(|(region, _)| *region)
    }

    fn row(&self, type_name: &str) -> Option<&usize> {
        let name = type_name.to_ascii_lowercase();
        self.rows.get(&*name).or_else(|| self.rows.get(name.strip_suffix("_promo")?))
    }

    fn at(&self, row: usize, column: usize) -> Option<f64> {
        let micros = *self.prices.get(row * self.regions.len() + column)?;
        (micros > 0).then(|| f64::from(micros) / MICROS)
    }

    /// The names of all types, in lower case.
    #[cfg(test)]
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.rows.keys().map(|name| &**name)
    }

    /// The memory that the table takes in addition to its text in the binary, in bytes.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        let names: usize = self.rows.keys().map(|name| name.len()).sum();
        // A hash map stores one control byte and one entry per slot.
        let places = self.rows.capacity() * (size_of::<(Box<str>, usize)>() + 1) * 8 / 7;
        names + places + self.prices.capacity() * size_of::<u32>() + self.regions.capacity() * size_of::<(&str, Day)>()
    }
}

/// The bytes that both tables take, with their text in the binary.
#[cfg(test)]
pub(super) fn bytes() -> usize {
    AWS.len() + AZURE.len() + SHIPPED_AWS.bytes() + SHIPPED_AZURE.bytes()
}

/// The currency that prices in a region are in.
pub(super) fn currency_of(region: &str) -> Currency {
    if region.starts_with("cn-") || region.starts_with("china") { Currency::Cny } else { Currency::Usd }
}

/// Reads a decimal number exactly. Returns 0 if the text is not a number.
fn micros(text: &str) -> u32 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction: String = fraction.chars().chain("000000".chars()).take(6).collect();
    let parsed = || whole.parse::<u32>().ok()?.checked_mul(1_000_000)?.checked_add(fraction.parse().ok()?);
    parsed().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_of_the_shipped_tables_is_a_price_or_empty() {
        for (family, text, types, regions) in [(Family::Aws, AWS, 1_377, 4), (Family::Azure, AZURE, 1_730, 28)] {
            let table = PriceTable::shipped(family);
            assert_eq!((table.rows.len(), table.regions.len()), (types, regions), "{family:?}");
            for line in text.lines().filter(|line| !line.starts_with('#')).skip(1) {
                let cells: Vec<_> = line.split('\t').collect();
                assert_eq!(cells.len(), regions + 1, "{line}");
                for ((region, _), cell) in table.regions.iter().zip(cells.iter().skip(1)) {
                    let expected = (!cell.is_empty()).then(|| cell.parse::<f64>().expect("a number"));
                    let price = table.price(region, cells.first().expect("a name")).map(|(price, _)| price);
                    assert_eq!(price, expected, "{line}");
                    assert!(price.is_none_or(|price| price > 0.0));
                }
            }
        }
    }

    #[test]
    fn azure_ignores_case_and_promotions() {
        let azure = PriceTable::shipped(Family::Azure);
        let price = azure.price("eastus", "Standard_D2s_v3").map(|(price, day)| (price, day.to_string()));
        assert_eq!(price, Some((0.096, "2026-06-18".to_owned())));
        assert_eq!(azure.price("eastus", "standard_d2s_V3_Promo"), azure.price("eastus", "Standard_D2s_v3"));
        assert_eq!(azure.price("nowhere", "Standard_D2s_v3"), None);
        assert!(azure.anywhere("Standard_D2s_v3", Currency::Cny).is_none());
    }
}
