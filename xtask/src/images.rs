//! `cargo xtask images`: makes the images that tests use, under separate names, from packages that are
//! available on the machines of this project. An existing image is not made again.

use anyhow::{Context as _, bail};

use crate::{
    docker,
    shell::{command, show, succeeds},
};

/// NATS, made from the pinned program. `nats:2.15` is the name of the NATS project's image.
pub(crate) const NATS: &str = "holdpoint-test/nats:2.15.1";
/// Postgres, made from the installed Debian package.
pub(crate) const POSTGRES: &str = "holdpoint-test/postgres:15";

pub(crate) fn run() -> anyhow::Result<()> {
    let _engine = docker::start_engine()?;
    make_missing()
}

/// Makes missing images; an engine must respond.
pub(crate) fn make_missing() -> anyhow::Result<()> {
    if !exists(NATS) {
        println!("xtask: making {NATS}");
        show(&mut command("tests/images/nats.sh", &[NATS])).context("tests/images/nats.sh")?;
    }
    if !exists(POSTGRES) {
        println!("xtask: making {POSTGRES}");
        if !docker::is_root() {
            bail!("only root can make {POSTGRES}; run `cargo xtask images` once as root");
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
