//! The one list of operators, and what is made from it here: the enum, its views, and the walk.

use super::*;

/// Calls the macro `then` with all operators: `then! { plain { method Type, .. } fused { method Type, .. } }`.
///
/// A backend must have the plain ones; the fused ones it may have. To add an operator, add its struct to a file of
/// [`crate::op`] and its line here; the compiler then asks the reference and the other backends for it.
#[macro_export]
macro_rules! for_each_op {
    ($then:ident) => {
        $then! {
            plain {
                /// Rows of tokens, or of numbers that the batch brings.
                embed Embed,
                /// Numbers that the batch has beside each row.
                feature Feature,
                /// Two rows as one.
                concat Concat,
                /// Learned positions.
                positions Positions,
                /// Norm of a row.
                normalize Normalize,
                /// Norm of each head.
                head_norm HeadNorm,
                /// Matrix product.
                linear Linear,
                /// Residual.
                add Add,
                /// Copy of a slot.
                copy Copy,
                /// Nonlinearity.
                activate Activate,
                /// Sigmoid gate.
                gate Gate,
                /// Function of one number.
                apply Apply,
                /// Rotary embedding.
                rotate Rotate,
                /// Keys and values into the cache.
                store Store,
                /// Softmax attention over the cache.
                attention Attention,
                /// Latent attention.
                latent_attend LatentAttend,
                /// Mixture of experts.
                experts Experts,
                /// Short convolution.
                conv Conv,
                /// Gated delta rule.
                delta_rule DeltaRule,
                /// State space scan.
                scan Scan,
                /// Norm with a gate.
                gated_norm GatedNorm,
                /// Scales of the adapters' columns.
                adapt Adapt,
                /// Residual of adapted rows.
                add_adapted AddAdapted,
                /// Fewer rows: those that are selected, or that want logits.
                select Select,
            }
            fused {
                /// Norm and several matrix products.
                project Project,
                /// Matrix product and residual.
                linear_add LinearAdd,
                /// Norm and residual.
                norm_add NormAdd,
                /// Norm, matrix products and nonlinearity.
                glu Glu,
                /// Attention with everything around it.
                attend Attend,
                /// Adapters of a matrix.
                low_rank LowRank,
            }
        }
    };
}

macro_rules! op {
    (
        plain { $($(#[$plain_doc:meta])* $plain:ident $Plain:ident,)* }
        fused { $($(#[$fused_doc:meta])* $fused:ident $Fused:ident,)* }
    ) => {
        impl Op {
            /// The names of plain operators, which a backend must have.
            pub const PLAIN: &'static [&'static str] = &[$(stringify!($Plain),)*];
        }

        op! { @all $($(#[$plain_doc])* $plain $Plain,)* $($(#[$fused_doc])* $fused $Fused,)* }
    };
    (@all $($(#[$doc:meta])* $method:ident $Op:ident,)*) => {
        /// One operator of a plan.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Op { $($(#[$doc])* $Op($Op),)* }

        /// A borrowed operator: what wrappers of machines see.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum OpRef<'a> { $($(#[$doc])* $Op(&'a $Op),)* }

        $(impl From<$Op> for Op { fn from(o: $Op) -> Op { Op::$Op(o) } })*

        impl Op {
            /// The names of all operators, in the order of the list.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($Op),)*];

            /// The operator, borrowed.
            pub fn view(&self) -> OpRef<'_> { match self { $(Op::$Op(o) => OpRef::$Op(o),)* } }
        }

        impl OpRef<'_> {
            /// Name in profiles and messages.
            pub fn name(self) -> &'static str { match self { $(OpRef::$Op(_) => stringify!($Op),)* } }

            /// Runs the operator.
            ///
            /// # Errors
            /// What the operator returns.
            pub fn run(self, m: &mut dyn Ops, b: &Batch) -> Result<()> {
                match self { $(OpRef::$Op(o) => m.$method(b, o),)* }
            }
        }

        impl Operands for OpRef<'_> {
            fn operands(&self) -> Vec<Operand> { match self { $(OpRef::$Op(o) => o.operands(),)* } }
        }
    };
}

for_each_op!(op);

impl Op {
    /// Name in profiles and messages.
    pub fn name(&self) -> &'static str {
        self.view().name()
    }
}

impl Operands for Op {
    fn operands(&self) -> Vec<Operand> {
        self.view().operands()
    }
}

/// Runs one operator.
///
/// # Errors
/// What the operator returns.
pub fn run(m: &mut dyn Ops, op: &Op, b: &Batch) -> Result<()> {
    op.view().run(m, b)
}
