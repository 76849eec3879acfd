//! The tensors that one packed weight is made of, and what is said when they do not fit together.

use super::{
    Settings,
    bits::{CodeLayout, Words},
    codes::{Coded, Meaning},
    groups::ScaleGroups,
    label::Label,
};
use crate::error::{ArchError, Result};
use lamina_base::{DType, HostTensor};
use lamina_store::Checkpoint;

/// How the name of a part follows from the weight's: the first ending is replaced by the second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending(pub &'static str, pub &'static str);

impl Ending {
    /// The name of the part for the weight `name`, if that has the ending.
    fn of(self, name: &str) -> Option<String> {
        Some(format!("{}{}", name.strip_suffix(self.0)?, self.1))
    }
}

/// One way to pack a weight.
pub(crate) struct Form {
    /// Where the codes stand.
    pub codes: Ending,
    /// Types of the codes. Where the codes have the weight's own name, the type tells a packed weight from a plain one.
    pub types: &'static [DType],
    /// What may stand beside them.
    pub beside: &'static [Ending],
    /// Reads shapes, scales and zero points; the codes themselves wait.
    pub open: fn(&Parts, &Settings) -> Result<Coded>,
}

/// A packed weight that was found and not yet opened.
pub(crate) struct Parts {
    /// What it is called.
    pub label: Label,
    /// The codes.
    pub codes: HostTensor,
    form: &'static Form,
    beside: Vec<HostTensor>,
}

impl Parts {
    /// The weight `name` in one of `forms`.
    pub fn find(forms: &[&'static Form], ck: &Checkpoint, name: &str) -> Option<Parts> {
        let tensors = &ck.tensors;
        let found = |form: &'static Form| {
            let codes = tensors.get(&form.codes.of(name)?)?.clone();
            let beside = form.beside.iter().filter_map(|e| tensors.get(&e.of(name)?).cloned()).collect();
            let file = codes.bytes.file().unwrap_or(&ck.folder).display().to_string();
            Some(Parts { label: Label { name: name.to_owned(), file }, codes, form, beside })
        };
        let all = || forms.iter().filter_map(|f| found(f));
        // A name that only packed weights have is a packed weight even if its type is wrong: opening it will say so.
        let typed = all().find(|p| p.form.types.contains(&p.codes.dtype));
        typed.or_else(|| all().find(|p| p.codes.name != name))
    }

    /// Shapes, scales and zero points.
    ///
    /// # Errors
    /// When a part is missing or does not fit the others.
    pub fn open(&self, settings: &Settings) -> Result<Coded> {
        if !self.form.types.contains(&self.codes.dtype) {
            return Err(self.wrong_type(&self.codes, self.form.types));
        }
        if let Some(empty) = self.tensors().find(|t| t.elements() == 0) {
            return Err(self.wrong(format!("`{}` is empty: {:?}", empty.name, empty.shape)));
        }
        (self.form.open)(self, settings)
    }

    /// The same with all parts in memory.
    ///
    /// # Errors
    /// When a file cannot be read, or memory does not suffice.
    pub fn fetched(self) -> Result<Parts> {
        let beside = self.beside.iter().map(|t| Ok(t.fetched()?)).collect::<Result<_>>()?;
        Ok(Parts { codes: self.codes.fetched()?, beside, ..self })
    }

    /// Names of all parts.
    pub fn names(&self) -> impl Iterator<Item = String> {
        [&self.codes].into_iter().chain(&self.beside).map(|t| t.name.clone())
    }

    /// All parts.
    pub fn tensors(&self) -> impl Iterator<Item = &HostTensor> {
        [&self.codes].into_iter().chain(&self.beside)
    }

    /// The part whose name ends in `ending`.
    ///
    /// # Errors
    /// When it is missing.
    pub fn get(&self, ending: &str) -> Result<&HostTensor> {
        self.opt(ending).ok_or_else(|| {
            let rule = self.form.beside.iter().find(|e| e.1 == ending);
            let name = rule.and_then(|e| e.of(&self.label.name)).unwrap_or_else(|| ending.to_owned());
            self.wrong(format!("`{name}` is missing"))
        })
    }

    /// The part whose name ends in `ending`, if there is one.
    pub fn opt(&self, ending: &str) -> Option<&HostTensor> {
        let rule = self.form.beside.iter().find(|e| e.1 == ending)?;
        let name = rule.of(&self.label.name)?;
        self.beside.iter().find(|t| t.name == name)
    }

    /// The values of `t`, which is of a plain type.
    ///
    /// # Errors
    /// When it is of a block type or broken.
    pub fn floats(&self, t: &HostTensor) -> Result<Vec<f32>> {
        Ok(lamina_quant::to_f32(t)?)
    }

    /// The whole numbers of `t`.
    ///
    /// # Errors
    /// When it holds something else.
    pub fn whole(&self, t: &HostTensor) -> Result<Vec<i64>> {
        let bytes = t.bytes.read(&t.label())?;
        Ok(match t.dtype {
            DType::I64 => bytes.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect(),
            DType::I32 => bytes.as_chunks().0.iter().map(|b| i64::from(i32::from_le_bytes(*b))).collect(),
            DType::I8 => bytes.iter().map(|b| i64::from(*b as i8)).collect(),
            DType::U8 => bytes.iter().map(|b| i64::from(*b)).collect(),
            _ => return Err(self.wrong_type(t, &[DType::I64, DType::I32, DType::I8, DType::U8])),
        })
    }

    /// The whole numbers of `t`, none of them negative.
    ///
    /// # Errors
    /// When it holds something else.
    pub fn sizes(&self, t: &HostTensor) -> Result<Vec<usize>> {
        let sizes = self.whole(t)?.into_iter().map(|n| usize::try_from(n).ok());
        let negative = || self.wrong(format!("`{}` holds a negative number", t.name));
        sizes.collect::<Option<_>>().ok_or_else(negative)
    }

    /// The two extents of `t`.
    ///
    /// # Errors
    /// When it has more or fewer.
    pub fn matrix(&self, t: &HostTensor) -> Result<[usize; 2]> {
        <[usize; 2]>::try_from(t.shape.as_slice())
            .map_err(|_| self.wrong(format!("`{}` is {:?}, but must have two extents", t.name, t.shape)))
    }

    /// `t` as a matrix of 32-bit words; the codes stay where they are.
    ///
    /// # Errors
    /// When it is something else.
    pub fn words(&self, t: &HostTensor) -> Result<Words> {
        if !matches!(t.dtype, DType::I32 | DType::U32) {
            return Err(self.wrong_type(t, &[DType::I32]));
        }
        let [rows, cols] = self.matrix(t)?;
        let codes = std::ptr::eq(t, &self.codes);
        let bytes = if codes { t.bytes.clone() } else { t.bytes.fetched(&t.label())?.into() };
        Ok(Words { bytes, rows, cols })
    }

    /// The weight of these codes, which stand for `meaning`, with its scales and zero points.
    ///
    /// # Errors
    /// When they are of different sizes, or a scale is no number.
    pub fn coded(
        &self,
        extents: [usize; 2],
        codes: impl CodeLayout + 'static,
        meaning: Meaning,
        groups: ScaleGroups,
        scales_and_zeros: (Vec<f32>, Vec<f32>),
    ) -> Result<Coded> {
        Coded::new(&self.label, &self.codes, extents, codes, meaning, groups, scales_and_zeros)
    }

    /// Checks the extents of a part.
    ///
    /// # Errors
    /// When they are others.
    pub fn expect(&self, t: &HostTensor, shape: &[usize]) -> Result<()> {
        if t.shape == shape {
            return Ok(());
        }
        Err(self.wrong(format!("`{}` is {:?}, but must be {shape:?}", t.name, t.shape)))
    }

    /// An error about this weight.
    pub fn wrong(&self, problem: impl Into<String>) -> ArchError {
        self.label.wrong(problem)
    }

    fn wrong_type(&self, t: &HostTensor, wanted: &[DType]) -> ArchError {
        let wanted: Vec<_> = wanted.iter().map(|d| d.name()).collect();
        self.wrong(format!("`{}` is {}, but must be {}", t.name, t.dtype, wanted.join(" or ")))
    }
}
