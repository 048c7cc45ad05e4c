//! `cargo xtask images`: the images that tests use, made here from what the registries of this
//! project's machines do serve, under names of their own. An image that is there already is used as it is.

use anyhow::{Context as _, bail};

use crate::{
    docker,
    shell::{command, show, succeeds},
};

/// NATS, made of the pinned program. A name of its own: `nats:2.15` is the one of the NATS project.
pub(crate) const NATS: &str = "holdpoint-test/nats:2.15.1";
/// Postgres, made of the installed Debian package.
pub(crate) const POSTGRES: &str = "holdpoint-test/postgres:15";

/// The command line's way in.
pub(crate) fn run() -> anyhow::Result<()> {
    let _engine = docker::engine()?;
    make()
}

/// Makes those that are missing; an engine must answer.
pub(crate) fn make() -> anyhow::Result<()> {
    if !exists(NATS) {
        println!("xtask: making {NATS}");
        show(&mut command("tests/images/nats.sh", &[NATS])).context("tests/images/nats.sh")?;
    }
    if !exists(POSTGRES) {
        println!("xtask: making {POSTGRES}");
        if !docker::is_root() {
            bail!("only root can make {POSTGRES}: run `cargo xtask images` once as root");
        }
        if !std::path::Path::new("/usr/lib/postgresql/15/bin/postgres").is_file() {
            docker::install(&["postgresql-15"])?;
        }
        show(&mut command("tests/images/postgres.sh", &[POSTGRES]))
            .context("tests/images/postgres.sh")?;
    }
    Ok(())
}

/// Whether the engine has this image.
pub(crate) fn exists(image: &str) -> bool {
    succeeds("docker", &["image", "inspect", image])
}
