//! Tables of a service's messages, and the words of enums.

/// The commands of a service, in the order of `docs/messages.md`: type, verb, aggregate and reply. The aggregate is
/// a field, or a field of the first item of a batch. `SERVICE` is that of the module.
macro_rules! commands {
    ($($type:ident: $verb:literal($($aggregate:tt)+) -> $reply:ty;)+) => {
        $(impl crate::message::Command for $type {
            const SERVICE: &'static str = SERVICE;
            const VERB: &'static str = $verb;
            type Reply = $reply;

            fn aggregate(&self) -> String {
                aggregate!(self, $($aggregate)+)
            }
        })+

        #[cfg(test)]
        pub(crate) fn commands() -> Vec<crate::catalogue::Entry> {
            vec![$(crate::catalogue::command::<$type>()),+]
        }
    };
}

macro_rules! aggregate {
    ($this:ident, scope $agent:ident) => {
        $this.$agent.as_ref().map_or_else(|| "*".to_owned(), ToString::to_string)
    };
    ($this:ident, = $same:expr) => {
        $same.to_owned()
    };
    ($this:ident, $items:ident[0]$(.$field:ident)*) => {
        $this.$items.first().map(|item| item$(.$field)*.to_string()).unwrap_or_default()
    };
    ($this:ident, $($field:ident).+) => {
        $this.$($field).+.to_string()
    };
}

/// The queries of a service, as [`commands`]: type, name and reply.
macro_rules! queries {
    ($($type:ident: $name:literal -> $reply:ty;)+) => {
        $(impl crate::message::Query for $type {
            const SERVICE: &'static str = SERVICE;
            const NAME: &'static str = $name;
            type Reply = $reply;
        })+

        #[cfg(test)]
        pub(crate) fn queries() -> Vec<crate::catalogue::Entry> {
            vec![$(crate::catalogue::query::<$type>()),+]
        }
    };
}

/// `as_str` of enums with [`strum::IntoStaticStr`].
macro_rules! words {
    ($($type:ty),+) => {
        $(impl $type {
            /// The word in bodies and rows.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                self.into_str()
            }
        })+
    };
}

/// `ALL` of enums with [`strum::VariantArray`]: every variant in its order.
macro_rules! all_variants {
    ($($type:ty),+) => {
        $(impl $type {
            pub const ALL: [Self; <Self as strum::VariantArray>::VARIANTS.len()] =
                match <Self as strum::VariantArray>::VARIANTS.first_chunk() {
                    Some(all) => *all,
                    None => unreachable!(),
                };
        })+
    };
}
