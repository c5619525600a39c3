//! A form with one file (RFC 7578).

/// The file of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its header lines, as they came.
    pub headers: Vec<String>,
    /// Its content.
    pub content: Vec<u8>,
}

impl Part {
    /// Reads `body`, whose type is `content_type`; `None` unless it is a form with one part and nothing else.
    #[must_use]
    pub fn parse(content_type: &str, body: &[u8]) -> Option<Self> {
        let boundary = content_type.strip_prefix("multipart/form-data; boundary=")?;
        let rest = body.strip_prefix(format!("--{boundary}\r\n").as_bytes())?;
        let end = rest.windows(4).position(|window| window == b"\r\n\r\n")?;
        let (head, rest) = rest.split_at(end);
        let content = rest
            .get(4..)?
            .strip_suffix(format!("\r\n--{boundary}--\r\n").as_bytes())?;
        let head = String::from_utf8(head.to_vec()).ok()?;
        Some(Self {
            headers: head.split("\r\n").map(str::to_owned).collect(),
            content: content.to_vec(),
        })
    }

    /// The form's field that it fills, and its file name.
    #[must_use]
    pub fn names(&self) -> Option<(&str, &str)> {
        let disposition = self.headers.iter().find_map(|line| {
            line.strip_prefix("Content-Disposition: form-data; name=\"")?
                .strip_suffix('"')
        })?;
        disposition.split_once("\"; filename=\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=abc";

    #[test]
    fn a_whole_form_is_read_and_a_cut_one_is_not() {
        let body =
            b"--abc\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.zip\"\r\n\
            Content-Type: application/octet-stream\r\n\r\n--abc\r\n\r\n--abc--\r\n";
        let part = Part::parse(TYPE, body).unwrap();
        assert_eq!(part.content, b"--abc\r\n");
        assert_eq!(part.names(), Some(("file", "a.zip")));
        assert_eq!(Part::parse(TYPE, &body[..body.len() - 1]), None);
        assert_eq!(Part::parse("text/plain", body), None);
    }
}
