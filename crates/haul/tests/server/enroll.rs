//! Enrolment through a real ssh server.
