//! Definitions as tests write them: YAML, JSON, or a value that was built.

use serde::de::DeserializeOwned;

use crate::contract::definition::{SupervisorDef, WorkflowDef};

/// Something that gives a definition: a YAML or JSON text, a [`serde_json::Value`], or the definition itself.
pub trait Definition<T> {
    /// Returns the definition.
    ///
    /// # Panics
    /// When the text or value is no definition; says where.
    fn definition(self) -> T;
}

impl<T: DeserializeOwned> Definition<T> for &str {
    fn definition(self) -> T {
        match serde_saphyr::from_str(self) {
            Ok(definition) => definition,
            Err(error) => panic!("this is no definition: {error}\n{self}"),
        }
    }
}

impl<T: DeserializeOwned> Definition<T> for String {
    fn definition(self) -> T {
        self.as_str().definition()
    }
}

impl<T: DeserializeOwned> Definition<T> for serde_json::Value {
    fn definition(self) -> T {
        let text = self.to_string();
        match serde_json::from_value(self) {
            Ok(definition) => definition,
            Err(error) => panic!("this is no definition: {error}\n{text}"),
        }
    }
}

impl Definition<Self> for SupervisorDef {
    fn definition(self) -> Self {
        self
    }
}

impl Definition<Self> for WorkflowDef {
    fn definition(self) -> Self {
        self
    }
}
