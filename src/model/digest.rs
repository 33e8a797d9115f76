//! A fingerprint of a set of users: what two sides compute of the same set is the same.

use super::Id;

/// Constants of a fingerprint, drawn anew for each use: what two sets have in common by chance, they do not have again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Salt([u32; 4]);

const LOW: u64 = 0xffff_ffff;

impl Salt {
    /// Fresh constants.
    #[must_use]
    pub fn random() -> Self {
        Self(rand::random())
    }

    /// The fingerprint of one user: two rounds of multiplying the salted halves with each other.
    #[must_use]
    pub fn of(&self, user: Id) -> u64 {
        let [a, b, c, d] = self.0.map(u64::from);
        let user = user.get().cast_unsigned();
        let mixed = ((user & LOW) ^ a) * ((user >> 32) ^ b);
        ((mixed & LOW) ^ c) * ((mixed >> 32) ^ d)
    }

    /// The same as an expression of SQL; its steps never exceed 64 bits.
    #[must_use]
    pub fn sql(&self, user: &str) -> String {
        let [a, b, c, d] = self.0;
        let mixed = format!("((({user} & {LOW}) ^ {a}) * (({user} >> 32) ^ {b}))");
        format!("((({mixed} & {LOW}) ^ {c}) * (({mixed} >> 32) ^ {d}))")
    }
}

/// How many users a set has, and their fingerprints put together by XOR. That two sets of which one user differs have the
/// same is as likely as about one in 2^60.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Digest {
    /// Users.
    pub users: u64,
    /// Their fingerprints.
    pub folded: u64,
}

impl Digest {
    /// Of users that are there once each.
    pub fn of(salt: &Salt, users: impl Iterator<Item = Id>) -> Self {
        users.fold(Self::default(), |digest, user| Self {
            users: digest.users + 1,
            folded: digest.folded ^ salt.of(user),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_that_differ_differ() {
        let id = |n: i64| Id::try_from(n).unwrap();
        for base in [0, 7, 1 << 33, i64::MAX - 100] {
            let salt = Salt::random();
            let digest = |users: &[i64]| Digest::of(&salt, users.iter().map(|&n| id(base + n)));
            assert_eq!(digest(&[1, 2, 3]), digest(&[3, 1, 2]));
            assert_ne!(digest(&[1, 2, 3]), digest(&[1, 2, 4]));
            // The XOR of these ids is 0.
            assert_ne!(digest(&[4, 5]), digest(&[6, 7]));
            assert_ne!(digest(&[16, 17]), digest(&[32, 33]));
        }
    }
}
