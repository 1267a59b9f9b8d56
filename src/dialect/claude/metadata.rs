//! What a compact boundary says that it keeps: `compactMetadata` with `preservedMessages {anchorUuid, uuids}`, or with
//! `preservedSegment {headUuid, anchorUuid, tailUuid}`. Where both stand, the list counts alone, also if it is void.
//! `allUuids` is without effect (measured with 2.1.197 and 2.1.332).

use crate::{
    dialect::jsonl::json::{Cursor, Field, Result},
    transcript::{IdTable, KeptNote, KeptRecords, RecordIx},
};

/// The note of a boundary, as it stands in its line.
pub(super) struct Kept<'a> {
    anchor: Field<'a>,
    records: Records<'a>,
}

enum Records<'a> {
    /// The elements of `uuids`; none if that is no array.
    List(Option<Vec<Field<'a>>>),
    Segment {
        head: Field<'a>,
        tail: Field<'a>,
    },
}

impl<'a> Kept<'a> {
    /// Steps over a `compactMetadata`; none if it keeps nothing.
    pub fn read(value: &mut Cursor<'a>) -> Result<Option<Self>> {
        if value.peek() != Some(b'{') {
            return value.skip().map(|_| None);
        }
        let (mut list, mut segment) = (None, None);
        value.members(|key, value| {
            match key.text().as_ref() {
                "preservedMessages" => list = Self::object(value, &Self::list)?,
                "preservedSegment" => segment = Self::object(value, &Self::segment)?,
                _ => drop(value.skip()?),
            }
            Ok(())
        })?;
        Ok(list.or(segment))
    }

    fn object(
        value: &mut Cursor<'a>,
        read: &dyn Fn(&mut Cursor<'a>) -> Result<Self>,
    ) -> Result<Option<Self>> {
        if value.peek() != Some(b'{') {
            return value.skip().map(|_| None);
        }
        read(value).map(Some)
    }

    fn list(value: &mut Cursor<'a>) -> Result<Self> {
        let (mut anchor, mut uuids) = (Field::Absent, None);
        value.members(|key, value| {
            match key.text().as_ref() {
                "anchorUuid" => anchor = value.field()?,
                "uuids" if value.peek() == Some(b'[') => {
                    let mut all = Vec::new();
                    value.elements(|element| element.field().map(|field| all.push(field)))?;
                    uuids = Some(all);
                }
                "uuids" => {
                    value.skip()?;
                    uuids = None;
                }
                _ => drop(value.skip()?),
            }
            Ok(())
        })?;
        Ok(Kept { anchor, records: Records::List(uuids) })
    }

    fn segment(value: &mut Cursor<'a>) -> Result<Self> {
        let (mut anchor, mut head, mut tail) = (Field::Absent, Field::Absent, Field::Absent);
        value.members(|key, value| {
            let field = match key.text().as_ref() {
                "anchorUuid" => &mut anchor,
                "headUuid" => &mut head,
                "tailUuid" => &mut tail,
                _ => return value.skip().map(drop),
            };
            *field = value.field()?;
            Ok(())
        })?;
        Ok(Kept { anchor, records: Records::Segment { head, tail } })
    }

    /// The same with ids. One that is no string makes the note void.
    pub fn note(&self, boundary: RecordIx, ids: &mut IdTable) -> KeptNote {
        let mut id = |field: &Field<'_>| match field {
            Field::Str(s) => Some(ids.intern(&s.text())),
            _ => None,
        };
        let anchor = id(&self.anchor);
        let records = match &self.records {
            Records::List(uuids) => {
                let uuids = uuids.as_ref().and_then(|all| all.iter().map(&mut id).collect());
                uuids.map_or(KeptRecords::Void, KeptRecords::List)
            }
            Records::Segment { head, tail } => match (id(head), id(tail)) {
                (Some(head), Some(tail)) => KeptRecords::Segment { head, tail },
                _ => KeptRecords::Void,
            },
        };
        KeptNote { boundary, anchor, records }
    }
}
