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

    /// The fingerprint of one user: his salted halves multiplied, and once more those of the product. Products of integers
    /// are not linear in the bits, so that users who make up for each other under XOR do not do so here; one product alone
    /// was seen to collide.
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

/// How many users a set has, and their fingerprints put together by XOR.
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
        }
    }

    /// Sets that are alike: neighbours, the same offsets, ids whose XOR is 0, the halves exchanged.
    #[test]
    fn sets_that_make_up_for_each_other_do_not_collide() {
        let id = |n: i64| Id::try_from(n).unwrap();
        let mut collisions = 0;
        for n in 0..200_000_i64 {
            let salt = Salt::random();
            let base = [n, n << 20, i64::MAX - 4096 - n, (n << 33) | n][usize::try_from(n % 4).unwrap()] + 1;
            let digest = |users: [i64; 2]| Digest::of(&salt, users.into_iter().map(|user| id(base + user)));
            for (one, other) in [([4, 5], [6, 7]), ([16, 17], [32, 33]), ([0, 3], [1, 2]), ([8, 1024], [9, 1025])] {
                collisions += u32::from(digest(one) == digest(other));
            }
            collisions += u32::from(salt.of(id((n + 1) << 32 | 7)) == salt.of(id(7 << 32 | (n + 1))) && n != 6);
        }
        assert_eq!(collisions, 0);
    }
}
