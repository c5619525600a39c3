//! The proxies that a host reaches other networks through.

use std::fmt;

/// Proxies, as the variables of that name give them to curl, git and Go's programs.
///
/// Clients of servers on loopback use none, as with Go's `ProxyFromEnvironment`. A proxy's URL may hold a password: it
/// is not shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// `http_proxy`: URL of the proxy for `http://`.
    pub http: Option<String>,
    /// `https_proxy`: URL of the proxy for `https://`.
    pub https: Option<String>,
    /// `all_proxy`: URL of the proxy for both, where they name none of their own.
    pub all: Option<String>,
    /// `no_proxy`: hosts, domains and networks that are reached directly, separated by commas.
    pub none: Option<String>,
}

impl Proxies {
    /// The proxies that `variable` names, which answers what a variable of the environment says: the lower case name
    /// counts before the upper case one, an empty value is none.
    #[must_use]
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let either = |name: &str| {
            let is_given = |value: &String| !value.is_empty();
            variable(name)
                .filter(is_given)
                .or_else(|| variable(&name.to_ascii_uppercase()).filter(is_given))
        };
        Self {
            http: either("http_proxy"),
            https: either("https_proxy"),
            all: either("all_proxy"),
            none: either("no_proxy"),
        }
    }

    /// As variables of a program's environment.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("http_proxy", &self.http),
            ("https_proxy", &self.https),
            ("all_proxy", &self.all),
            ("no_proxy", &self.none),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }

    /// `builder` with these proxies and no others.
    ///
    /// # Errors
    ///
    /// If one of them is no URL.
    pub fn applied(
        &self,
        builder: reqwest::ClientBuilder,
    ) -> Result<reqwest::ClientBuilder, reqwest::Error> {
        let direct = self.none.as_deref().and_then(reqwest::NoProxy::from_string);
        let mut builder = builder.no_proxy();
        let each = [
            self.http.as_deref().map(reqwest::Proxy::http),
            self.https.as_deref().map(reqwest::Proxy::https),
            self.all.as_deref().map(reqwest::Proxy::all),
        ];
        for proxy in each.into_iter().flatten() {
            builder = builder.proxy(proxy?.no_proxy(direct.clone()));
        }
        Ok(builder)
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.variables().map(|(name, _)| name).collect();
        f.debug_tuple("Proxies").field(&names).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: &[(&str, &str)]) -> Proxies {
        Proxies::of(|name| {
            let found = set.iter().find(|(key, _)| *key == name)?;
            Some(found.1.to_owned())
        })
    }

    #[test]
    fn lower_case_names_count_first_and_empty_ones_not_at_all() {
        let proxies = of(&[
            ("http_proxy", "http://a"),
            ("HTTP_PROXY", "http://b"),
            ("https_proxy", ""),
            ("HTTPS_PROXY", "http://c"),
        ]);

        assert_eq!(proxies.http.as_deref(), Some("http://a"));
        assert_eq!(proxies.https.as_deref(), Some("http://c"));
        assert_eq!(proxies.all, None);
        assert_eq!(
            proxies.variables().collect::<Vec<_>>(),
            [("http_proxy", "http://a"), ("https_proxy", "http://c")]
        );
    }

    #[test]
    fn a_proxys_password_is_not_shown() {
        let proxies = of(&[("https_proxy", "http://user:s3cr3t@proxy")]);

        assert_eq!(format!("{proxies:?}"), "Proxies([\"https_proxy\"])");
    }
}
