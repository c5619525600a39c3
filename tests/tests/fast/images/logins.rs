//! Logins, and where they come from.

use super::*;

#[tokio::test]
async fn a_login_is_taken_from_where_there_is_one() {
    let registry = Registry::with(Demands {
        login: true,
        tls: false,
    });
    Image::new().push(&registry, "a:1");
    let name = registry.image("a:1");
    // `builder:hush-hush`
    let config =
        json!({"auths": {registry.host(): {"auth": "YnVpbGRlcjpodXNoLWh1c2g="}}}).to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json");
    std::fs::write(&file, &config).unwrap();
    let request = PullRequest::new(&name, PullPolicy::Always);
    let with_variable = PullRequest {
        docker_auth_config: Some(config.into()),
        ..request.clone()
    };
    let with_job = PullRequest {
        registry_credentials: vec![RegistryCredential {
            url: registry.host().to_owned(),
            username: USER.to_owned(),
            password: PASSWORD.into(),
        }],
        ..request.clone()
    };
    let of_host = Host::with(ImageSettings {
        docker_config: Some(file),
        ..settings(RegistryOptions::default())
    });

    for request in [&with_variable, &with_job] {
        let shown = format!("{request:?}");
        assert!(
            !shown.contains(PASSWORD) && !shown.contains("YnVpbGRlcj"),
            "{shown}"
        );
    }
    assert!(Host::new().ensure(&with_variable).await.is_ok());
    assert!(Host::new().ensure(&with_job).await.is_ok());
    assert!(of_host.ensure(&request).await.is_ok());
    assert!(of_host.was_told("Login"));
    let (_, text) = Host::new().failure(&name).await;
    assert!(text.contains("without a login"), "{text}");
}

#[tokio::test]
async fn a_mirror_is_shown_the_hosts_own_login() {
    let mirror = Registry::with(Demands {
        login: true,
        tls: false,
    });
    Image::new().push(&mirror, "hub/a:1");
    // `builder:hush-hush`
    let auths = json!({"auths": {mirror.host(): {"auth": "YnVpbGRlcjpodXNoLWh1c2g="}}}).to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json");
    std::fs::write(&file, &auths).unwrap();
    let mirrors = |docker_config| ImageSettings {
        docker_config,
        ..settings(RegistryOptions {
            mirrors: [(
                "127.0.0.1:1".to_owned(),
                vec![format!("{}/hub", mirror.host())],
            )]
            .into(),
            ..RegistryOptions::default()
        })
    };
    let request = PullRequest::new("127.0.0.1:1/a:1", PullPolicy::Always);
    let of_job = PullRequest {
        docker_auth_config: Some(auths.into()),
        ..request.clone()
    };

    let with = Host::with(mirrors(Some(file))).ensure(&request).await;
    let without = Host::with(mirrors(None)).ensure(&of_job).await;

    assert!(with.is_ok(), "{with:?}");
    assert!(without.is_err(), "what a job brings is not for mirrors");
}
