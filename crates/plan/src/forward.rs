//! Methods of a backend around another one that leave the work to it.

/// Methods of [`Backend`](crate::Backend), by name, that the backend in the field `inner` does:
/// `forward_backend!(inner: name memory);`. The others keep their defaults, or are written out beside it.
///
/// All others of a backend that a model is opened with are asked before it is wrapped: sizes, layouts, shares.
#[macro_export]
macro_rules! forward_backend {
    ($inner:tt: $($method:ident)+) => {
        $($crate::forward_backend!(@$method $inner);)+
    };
    (@name $inner:tt) => {
        fn name(&self) -> &'static str {
            self.$inner.name()
        }
    };
    (@capabilities $inner:tt) => {
        fn capabilities(&self) -> $crate::Capabilities {
            self.$inner.capabilities()
        }
    };
    (@about $inner:tt) => {
        fn about(&self) -> $crate::About {
            self.$inner.about()
        }
    };
    (@memory $inner:tt) => {
        fn memory(&self) -> Option<$crate::Memory> {
            self.$inner.memory()
        }
    };
    (@runs_as $inner:tt) => {
        fn runs_as(&self, dtype: lamina_base::DType) -> lamina_base::DType {
            self.$inner.runs_as(dtype)
        }
    };
    (@weight_bytes $inner:tt) => {
        fn weight_bytes(&self, spec: &$crate::WeightSpec, dtype: lamina_base::DType) -> usize {
            self.$inner.weight_bytes(spec, dtype)
        }
    };
    (@upload $inner:tt) => {
        fn upload(
            &self,
            spec: &$crate::WeightSpec,
            tensor: &lamina_arch::weights::Tensor,
        ) -> $crate::backend::Result<Self::Weight> {
            self.$inner.upload(spec, tensor)
        }
    };
    (@stores_as $inner:tt) => {
        fn stores_as(&self, layout: &$crate::KvLayout, group: usize, types: $crate::KvTypes) -> $crate::KvTypes {
            self.$inner.stores_as(layout, group, types)
        }
    };
    (@page_bytes $inner:tt) => {
        fn page_bytes(&self, layout: &$crate::KvLayout, group: usize, types: $crate::KvTypes) -> usize {
            self.$inner.page_bytes(layout, group, types)
        }
    };
}
