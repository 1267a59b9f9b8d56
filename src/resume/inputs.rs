//! What a policy reads beside the inspection, gathered where it comes from.

use crate::{
    dialect::Client,
    policy::Inputs,
    resume::{Host, annotate::Context},
    topology::Inspection,
    transcript::Transcript,
};

impl Host<'_> {
    /// The inputs of a policy for one session. The project is the one that the caller names, else that of the
    /// transcript's first record; the client version is the one that was simulated.
    pub fn policy_inputs(
        &self,
        t: &Transcript,
        inspection: &Inspection,
        context: &Context,
        client: &Client,
    ) -> Inputs {
        let cwd = client.project.clone().or_else(|| t.first_cwd.clone());
        let simulated = inspection.client_pick.as_ref().map(|pick| pick.client_version.clone());
        Inputs {
            now: self.now(),
            agent: inspection.agent,
            session_id: inspection.session_id.clone(),
            git_branch: cwd.as_deref().and_then(|cwd| (self.git_branch)(cwd)),
            cwd,
            recorded: context.recorded.clone(),
            labels: context.labels.clone(),
            client_version: simulated.filter(|v| !v.is_empty()).or_else(|| client.version.clone()),
        }
    }
}
