//! Job responses of GitLab, and what they are translated into.

mod full_response;
mod ported;
mod translate;
