//! vk-gitlab: the relay between GitLab and vk.
