//! One line a command, one line a query. `SERVICE` is the one of the module that calls.

macro_rules! command {
    ($type:ty, $verb:literal, $answer:ty, |$this:ident| $aggregate:expr) => {
        impl Command for $type {
            const SERVICE: &'static str = SERVICE;
            const VERB: &'static str = $verb;
            type Reply = $answer;

            fn aggregate(&self) -> String {
                let $this = self;
                $aggregate
            }
        }
    };
}

macro_rules! query {
    ($type:ty, $name:literal, $answer:ty) => {
        impl Query for $type {
            const SERVICE: &'static str = SERVICE;
            const NAME: &'static str = $name;
            type Reply = $answer;
        }
    };
}
