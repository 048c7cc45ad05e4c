//! The style sheet, the script and the icon. They are in the binary, and their names contain a hash.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use sha2::{Digest, Sha256};

/// A file that browsers may cache forever, because changed content has another name.
#[derive(Debug)]
pub(super) struct Asset {
    pub(super) path: String,
    content: &'static str,
    media_type: &'static str,
}

pub(super) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let content = include_str!("assets/holdpoint.css");
    Asset::new("css", content, "text/css; charset=utf-8")
});
pub(super) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let content = include_str!("assets/holdpoint.js");
    Asset::new("js", content, "text/javascript; charset=utf-8")
});
pub(super) static ICON: LazyLock<Asset> = LazyLock::new(|| {
    let content = include_str!("assets/holdpoint.svg");
    Asset::new("svg", content, "image/svg+xml")
});

impl Asset {
    fn new(kind: &str, content: &'static str, media_type: &'static str) -> Self {
        let digest = format!("{:x}", Sha256::digest(content));
        let hash = digest.get(..12).unwrap_or(&digest);
        Self {
            path: format!("/assets/holdpoint-{hash}.{kind}"),
            content,
            media_type,
        }
    }
}

pub(super) async fn file(Path(name): Path<String>) -> Result<impl IntoResponse, StatusCode> {
    let path = format!("/assets/{name}");
    let mut assets = [&STYLE, &SCRIPT, &ICON].into_iter();
    let asset = assets.find(|asset| asset.path == path);
    let asset = asset.ok_or(StatusCode::NOT_FOUND)?;
    let headers = [
        (header::CONTENT_TYPE, asset.media_type),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    Ok((headers, asset.content))
}
