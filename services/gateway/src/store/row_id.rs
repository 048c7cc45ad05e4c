//! Ids of rows as the API shows them: a prefix and a number. An id opens nothing.

/// Defines the id of a kind of row.
macro_rules! row_id {
    ($name:ident, $kind:literal, $prefix:literal) => {
        #[doc = concat!("Id of a ", $kind, ": `", $prefix, "` and a number.")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
        #[serde(into = "String")]
        pub(crate) struct $name(pub(in crate::store) i64);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let digits = text.strip_prefix($prefix);
                let digits = digits.filter(|text| text.chars().all(|c| c.is_ascii_digit()));
                let number = digits.and_then(|digits| digits.parse().ok());
                number.map(Self).ok_or_else(|| {
                    let text = crate::problem::excerpt(text);
                    format!(
                        concat!(
                            "`{}` is not the id of a ",
                            $kind,
                            "; expected `",
                            $prefix,
                            "` and a number"
                        ),
                        text
                    )
                })
            }
        }
    };
}
pub(super) use row_id;
