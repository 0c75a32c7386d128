//! What could not be read.

/// Problems that are listed; of more there is the number.
const LISTED: usize = 20;
/// Characters of one.
const LONGEST: usize = 500;

/// A bounded list of problems.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Problems {
    listed: Vec<String>,
    more: u64,
}

impl Problems {
    pub(super) fn add(&mut self, problem: String) {
        if self.listed.len() < LISTED {
            let end = problem.char_indices().nth(LONGEST).map(|(end, _)| end);
            self.listed.push(end.map_or_else(|| problem.clone(), |end| format!("{} …", &problem[..end])));
        } else {
            self.more += 1;
        }
    }

    pub(super) fn extend(&mut self, others: &Self) {
        others.listed.iter().for_each(|problem| self.add(problem.clone()));
        self.more += others.more;
    }

    pub(super) fn into_list(self) -> Vec<String> {
        let mut list = self.listed;
        if self.more > 0 {
            list.push(format!("and {} more", self.more));
        }
        list
    }
}
