"""Words that say nothing by themselves, in the languages most is written in; without accents, as they are searched."""

_WORDS = """
a about again all am an and any are as at be been but by can could did do does for from had has have he her him his how
i if in into is it its just know let may me mine my no not now of on or our out please remember remind said say she
should so some tell than that the their them then there these they this to up us was we were what when where which who
whom whose why will with would you your

aber als am an auf aus bei bin bist da das dass dein dem den der des die dir doch du ein eine einen einer er es fur hab
habe haben hat ich ihr im in ist ja kann man mein meine mich mir mit nach nicht noch nur oder schon sein sich sie sind
so und uns unser von vom war waren was wann warum welche welcher wer wie wir wird wo zu zum zur

au aux avec ce ces dans de des du elle en est et il ils je la le les leur lui ma mais mes mon ne nous on ou par pas pour
qu que qui sa se ses son sur ta te tes toi ton tu un une vos votre vous

al como con cual del donde el ella era es esta este fue ha la las lo los mi mis muy no o para pero por que se si sin su
sus un una y yo
"""

STOP_WORDS = frozenset(_WORDS.split())
