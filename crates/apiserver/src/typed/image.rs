//! The tag in the name of a container image.

/// Whether the default pull policy of an image is `Always`: it has no tag and no digest, or the tag
/// `latest`.
pub(super) fn is_latest(image: &str) -> bool {
    let (name, has_digest) = match image.split_once('@') {
        Some((name, _)) => (name, true),
        None => (image, false),
    };
    // A colon before the last slash separates a port.
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => !has_digest && is_name(image),
    }
}

/// Whether a text is a valid image name. An invalid one has no tag.
fn is_name(image: &str) -> bool {
    !image.is_empty()
        && image.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"./-_:".contains(&byte)
        })
}

#[cfg(test)]
mod tests {
    use super::is_latest;

    #[test]
    fn an_image_without_a_tag_is_the_latest() {
        for image in ["nginx", "nginx:latest", "localhost:5000/nginx", "a/b/c"] {
            assert!(is_latest(image), "{image}");
        }
        for image in [
            "nginx:1",
            "localhost:5000/nginx:1",
            "nginx@sha256:00",
            "",
            "UPPER",
        ] {
            assert!(!is_latest(image), "{image}");
        }
    }
}
