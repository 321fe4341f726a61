//! Refused files and programs, from a real guard to the history, and folders that are approved.

use super::*;
use crate::api::{ActivityKind, ActivityQuery, ActivityRow, ExecStanding, NewGrant};
use crate::spec::{ExecRestriction, GrantKind};

/// Tries a protected name and a program of its own, says how each went, and waits.
const ATTEMPTS: &str = "mkdir -p sub; touch sub/.envrc 2>/dev/null; echo \"name $?\"; mkdir -p bin; \
                        cp /usr/bin/true bin/own; bin/own 2>/dev/null; echo \"run $?\"; \
                        sh -c 'exit 0'; echo \"shell $?\"; echo over; read line";

impl Rig {
    async fn restricted(&self) -> SessionInfo {
        let line = self.script("attempts", ATTEMPTS);
        let request = LaunchRequest {
            exec_restriction: ExecRestriction::Writable,
            ..self.request(BackendChoice::Native, &line)
        };
        let info = self.engine.launch(request).await.unwrap();
        assert_eq!(info.handle.error, None);
        info
    }

    /// What the session said until its attempts were over.
    async fn said(&self, id: &str) -> String {
        let mut bytes = Vec::new();
        loop {
            let chunk = self
                .engine
                .read_output(id, bytes.len() as u64)
                .await
                .unwrap();
            bytes.extend(chunk.bytes);
            let text = String::from_utf8_lossy(&bytes).replace('\r', "");
            if text.contains("over\n") {
                return text;
            }
            assert!(!chunk.ended, "{text}");
        }
    }

    async fn rows(&self, id: &str, kind: ActivityKind) -> Vec<ActivityRow> {
        let query = ActivityQuery {
            session_id: Some(id.to_owned()),
            kind: Some(kind),
            ..ActivityQuery::default()
        };
        self.engine.activity(query).await.unwrap().rows
    }

    fn standings(&self, id: &str) -> Vec<ExecStanding> {
        let policy = self.engine.exec_policy(id).unwrap();
        assert_eq!(policy.restriction, ExecRestriction::Writable);
        policy.grants.iter().map(|each| each.standing).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_file_and_a_refused_program_are_rows_with_who_and_why() {
    // REQ UI-5, BW-6, SP
    let rig = Rig::start().await;
    rig.assert_native();
    let info = rig.restricted().await;
    let said = rig.said(&info.id).await;
    assert!(
        said.contains("name 1\n") && said.contains("shell 0\n"),
        "{said}"
    );
    assert!(said.contains("run 126\n"), "{said}");
    let mut found = (Vec::new(), Vec::new());
    let deadline = Instant::now() + Duration::from_secs(60);
    while found.0.is_empty() || found.1.is_empty() {
        assert!(Instant::now() < deadline, "{found:?}");
        found = (
            rig.rows(&info.id, ActivityKind::Files).await,
            rig.rows(&info.id, ActivityKind::Exec).await,
        );
    }
    let (files, programs) = found;
    let work = rig.work();
    let at = |below: &str| work.join(below).to_str().unwrap().to_owned();
    assert_eq!(files[0].target, at("sub/.envrc"));
    assert_eq!(files[0].why, ".envrc is protected everywhere");
    assert_eq!(files[0].process.as_ref().unwrap().name, "touch");
    assert_eq!(programs[0].target, at("bin/own"));
    let detail = programs[0].file.as_ref().unwrap();
    assert!(detail.approvable && detail.exact, "{detail:?}");
    eventually("the refusals are unread", || {
        rig.engine.session(&info.id).unwrap().unread_refusals >= 2
    })
    .await;
    let counts = rig.engine.session(&info.id).unwrap().counts;
    assert_eq!(counts.refused, 0, "no connection was refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_folder_runs_from_the_restart_on_and_a_revoked_one_until_the_next() {
    // REQ UI-7
    let rig = Rig::start().await;
    rig.assert_native();
    let first = rig.restricted().await;
    assert!(rig.said(&first.id).await.contains("run 126\n"));
    let wanted = |what: PathBuf| NewGrant {
        kind: GrantKind::Exec,
        what: what.to_str().unwrap().to_owned(),
        session_id: Some(first.id.clone()),
        workspace: None,
    };
    let refused = rig.engine.add_grant(wanted(home())).await.unwrap_err();
    assert_eq!(refused.code, "EXEC_FOLDER_TOO_WIDE");
    assert_eq!(rig.standings(&first.id), []);
    rig.engine
        .add_grant(wanted(rig.work().join("bin")))
        .await
        .unwrap();
    let known = || !rig.standings(&first.id).is_empty();
    eventually("the approval is known", known).await;
    assert_eq!(rig.standings(&first.id), [ExecStanding::NextStart]);

    let second = rig.engine.restart(&first.id).await.unwrap();
    assert!(rig.said(&second.id).await.contains("run 0\n"));
    let in_force = || rig.standings(&second.id) == [ExecStanding::InForce];
    eventually("it is in force", in_force).await;
    let grant = rig.engine.exec_policy(&second.id).unwrap().grants[0]
        .grant
        .clone();
    assert_eq!(grant.session_id.as_ref(), Some(&second.id));
    rig.engine.revoke_grant(grant.id).await.unwrap();
    let revoked = || rig.standings(&second.id) == [ExecStanding::Revoked];
    eventually("it is revoked", revoked).await;

    let third = rig.engine.restart(&second.id).await.unwrap();
    assert!(rig.said(&third.id).await.contains("run 126\n"));
    assert_eq!(rig.standings(&third.id), []);
}
